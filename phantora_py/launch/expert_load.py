"""`--expert-load`: the distribution that the user asked for, checked."""

import math
from pathlib import Path

from phantora_py.launch.interpreter import Torch
from phantora_py.rank.expert_load import ExpertLoad
from sim_server.errors import UsageError
from sim_server.files.toml_file import read_text

# Before, PyTorch does not hand out its kernels, and no operation finds values
# (docs/decisions/small-operations.md).
OLDEST_TORCH = (2, 9)


def choose_expert_load(text: str, torch: Torch | None) -> ExpertLoad:
    """The distribution that `text` names: `uniform`, `zipf:S` or a file of weights.

    Raises: UsageError if it names none, or one that `torch` cannot follow.
    """
    load = _parse(text)
    if not load.is_uniform and torch is not None and torch.release < OLDEST_TORCH:
        raise UsageError(
            f"--expert-load {text} needs PyTorch {'.'.join(map(str, OLDEST_TORCH))} or later; "
            f"this is {torch.version}, in which routing is not made up but reads as zeros."
        )
    return load


def _parse(text: str) -> ExpertLoad:
    if text == "uniform":
        return ExpertLoad()
    name, _, exponent = text.partition(":")
    if name == "zipf":
        return ExpertLoad(text, exponent=_number(exponent, f"--expert-load {text}: the exponent"))
    return ExpertLoad(text, weights=_read_weights(Path(text)))


def _read_weights(path: Path) -> tuple[float, ...]:
    if not path.exists():
        raise UsageError(
            f"--expert-load {path}: neither uniform nor zipf:S, and there is no such file."
        )
    words = read_text(path, "--expert-load").split()
    weights = tuple(
        _number(word, f"{path}: weight {number}") for number, word in enumerate(words, 1)
    )
    if not any(weights):
        raise UsageError(f"{path} has no weight above 0. It is to have one number per expert.")
    return weights


def _number(word: str, what: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not (0.0 <= number < math.inf):
        raise UsageError(f"{what} must be a number, 0 or more, not {word!r}.")
    return number
