"""torchrun's command line, as far as a simulated launch can honour it, and its predecessor's.

`python -m torch.distributed.launch` has one option more, and without it gives scripts their local
rank as an argument.

Owns the table of torchrun's options: each is honoured, ignored for a stated reason, or refused. It
must not import torch: the torch of the traced program may belong to another interpreter.

Source: torch/distributed/run.py and launch.py of PyTorch 2.15.
"""

import difflib
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim_server.errors import UsageError


class Effect(enum.Enum):
    """What becomes of an option."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Option:
    """One option of torchrun; `reason` says why it is ignored or refused."""

    takes_value: bool
    effect: Effect = Effect.HONOURED
    reason: str = ""


def _ignored(reason: str, takes_value: bool = True) -> Option:
    return Option(takes_value, Effect.IGNORED, reason)


_RENDEZVOUS = "phantora starts all nodes itself, so there is nobody to meet"
_OUTPUT = "the data file and --log-dir hold the output of every rank, --rank chooses what is shown"

OPTIONS: Mapping[str, Option] = {
    "nnodes": Option(True),
    "nproc-per-node": Option(True),
    "standalone": Option(False),
    "rdzv-id": Option(True),
    "role": Option(True),
    "module": Option(False),
    "no-python": Option(False),
    "run-path": Option(False),
    "master-port": Option(True),
    "local-ranks-filter": Option(True),
    "rdzv-backend": _ignored(_RENDEZVOUS),
    "rdzv-endpoint": _ignored(_RENDEZVOUS),
    "rdzv-conf": _ignored(_RENDEZVOUS),
    "node-rank": _ignored("phantora starts every node of the job"),
    "master-addr": _ignored("the first simulated node is the master"),
    "local-addr": _ignored("simulated nodes have addresses of their own"),
    "max-restarts": _ignored("a rank that fails ends the simulated run"),
    "monitor-interval": _ignored("phantora is told at once when a rank ends"),
    "start-method": _ignored("phantora starts the ranks in its own way"),
    "event-log-handler": _ignored("there is no elastic agent whose events could be logged"),
    "log-dir": Option(True),
    "redirects": _ignored(_OUTPUT),
    "tee": _ignored(_OUTPUT),
    "log-line-prefix-template": _ignored(_OUTPUT),
    "duplicate-stdout-filters": _ignored(_OUTPUT),
    "duplicate-stderr-filters": _ignored(_OUTPUT),
    "logs-specs": _ignored(_OUTPUT),
    "numa-binding": _ignored("binding to this machine's cores would slow the simulation only"),
    "signals-to-handle": _ignored("phantora handles signals itself"),
    "shutdown-timeout": _ignored("phantora stops ranks within seconds"),
    "virtual-local-rank": Option(
        False, Effect.REFUSED, "hiding the other GPUs of a node from a rank is not simulated"
    ),
    "print-completion": Option(True, Effect.REFUSED, "it does not start a program"),
}

_LAUNCH_OPTIONS: Mapping[str, Option] = {**OPTIONS, "use-env": Option(False)}

_SHORT = {"-m": "module", "-r": "redirects", "-t": "tee"}


@dataclass(frozen=True)
class TorchrunCommand:
    """What a torchrun command asks for. `nodes` is None where the user left it open."""

    nodes: int | None
    processes_per_node: str
    run_id: str
    role: str
    master_port: int | None
    module: bool
    python: bool
    shown_local_ranks: frozenset[int] | None
    notes: tuple[str, ...]
    program: tuple[str, ...]
    log_dir: Path | None = None
    passes_local_rank: bool = False  # as the program's first argument


def parse_torchrun(
    arguments: Sequence[str], environment: Mapping[str, str], launch: bool = False
) -> TorchrunCommand:
    """Understands the arguments that follow `torchrun`, or torch.distributed.`launch`.

    `environment` supplies the defaults that torchrun reads from PET_* variables.

    Raises: UsageError for an unknown or refused option, a bad value, or no program to run.
    """
    options = _LAUNCH_OPTIONS if launch else OPTIONS
    given, program = _split(arguments, options)
    passes_local_rank = launch and "use-env" not in given
    for name, option in options.items():
        value = environment.get("PET_" + name.upper().replace("-", "_"))
        if value is not None and name not in given and (option.takes_value or value == "1"):
            given[name] = value
    for name in given:
        if options[name].effect is Effect.REFUSED:
            raise UsageError(f"torchrun --{name} cannot be simulated: {options[name].reason}.")
    if not program:
        raise UsageError("The torchrun command names no program to run.")
    if "module" in given and "no-python" in given:
        raise UsageError("torchrun takes --module or --no-python, not both.")
    if "no-python" in given and passes_local_rank:
        raise UsageError("torch.distributed.launch takes --no-python only with --use-env.")
    port = given.get("master-port")
    return TorchrunCommand(
        nodes=_node_count(given["nnodes"]) if "nnodes" in given else None,
        processes_per_node=given.get("nproc-per-node", "1"),
        run_id=given.get("rdzv-id", "none"),
        role=given.get("role", "default"),
        master_port=None if port is None else _number("master-port", port),
        module="module" in given,
        # A script run by path within torchrun's own interpreter is a script all the same.
        python="no-python" not in given or "run-path" in given,
        shown_local_ranks=_shown(given.get("local-ranks-filter")),
        notes=tuple(
            f"torchrun --{name} is ignored: {options[name].reason}"
            for name in given
            if options[name].effect is Effect.IGNORED
        ),
        program=program,
        log_dir=Path(given["log-dir"]) if given.get("log-dir") else None,
        passes_local_rank=passes_local_rank,
    )


def _split(
    arguments: Sequence[str], options: Mapping[str, Option]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The options given, by canonical name, and the program with its arguments."""
    given: dict[str, str] = {}
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            return given, tuple(arguments[position + 1 :])
        if not argument.startswith("-"):
            break
        name, value = _name_and_value(argument, options)
        position += 1
        if options[name].takes_value and value is None:
            if position == len(arguments):
                raise UsageError(f"torchrun {argument} needs a value.")
            value = arguments[position]
            position += 1
        elif value is not None and not options[name].takes_value:
            raise UsageError(f"torchrun --{name} takes no value, but was given {value!r}.")
        given[name] = value or ""
    return given, tuple(arguments[position:])


def _name_and_value(argument: str, options: Mapping[str, Option]) -> tuple[str, str | None]:
    """`--nproc_per_node=8` as ("nproc-per-node", "8"); a unique abbreviation will do."""
    if argument[:2] in _SHORT and not argument.startswith("--"):
        return _SHORT[argument[:2]], argument[2:].removeprefix("=") or None
    text, separator, value = argument.partition("=")
    wanted = text.removeprefix("--").replace("_", "-")
    matches = [name for name in options if name.startswith(wanted)] if argument[:2] == "--" else []
    if wanted in options:
        matches = [wanted]
    if len(matches) == 1:
        return matches[0], value if separator else None
    if matches:
        raise UsageError(f"torchrun {text} may mean {', '.join('--' + name for name in matches)}.")
    nearest = difflib.get_close_matches(wanted, options, n=1, cutoff=0.4)
    hint = f" Did you mean --{nearest[0]}?" if nearest else ""
    raise UsageError(f"torchrun has no option {text}.{hint}")


def _node_count(text: str) -> int:
    """`4`, or `MIN:MAX` of an elastic job, of which the simulation runs the largest form."""
    bounds = [_number("nnodes", part) for part in text.split(":")]
    if len(bounds) > 2 or bounds[0] < 1 or bounds[-1] < bounds[0]:
        raise UsageError(f"torchrun --nnodes takes N or MIN:MAX, not {text!r}.")
    return bounds[-1]


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"torchrun --{name} takes a number, not {text!r}.") from None


def _shown(text: str | None) -> frozenset[int] | None:
    if not text:
        return None
    return frozenset(_number("local-ranks-filter", part) for part in text.split(","))
