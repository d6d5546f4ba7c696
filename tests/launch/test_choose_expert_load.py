"""`--expert-load`: what is understood, and what is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from phantora_py.launch.expert_load import choose_expert_load
from phantora_py.launch.interpreter import Torch
from phantora_py.rank.expert_load import ExpertLoad
from sim_server.errors import UsageError


def test_distributions(tmp_path: Path) -> None:
    """By name, by exponent, by file."""
    assert choose_expert_load("uniform", None).is_uniform
    assert choose_expert_load("zipf:1.2", None) == ExpertLoad("zipf:1.2", exponent=1.2)
    path = tmp_path / "loads.txt"
    path.write_text("3 1\n0.5\n")
    assert choose_expert_load(str(path), None) == ExpertLoad(str(path), weights=(3.0, 1.0, 0.5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 two", "weight 2 must be a number, 0 or more, not 'two'"),
        ("1 -1", "weight 2 must be a number, 0 or more, not '-1'"),
        ("1 nan", "weight 2 must be a number, 0 or more, not 'nan'"),
        ("0 0", "has no weight above 0"),
        ("", "has no weight above 0"),
    ],
)
def test_a_file_that_is_wrong(tmp_path: Path, content: str, message: str) -> None:
    """The message says where."""
    path = tmp_path / "loads.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        choose_expert_load(str(path), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zipf", "the exponent must be a number"),
        ("zipf:steep", "the exponent must be a number, 0 or more, not 'steep'"),
        ("even", "neither uniform nor zipf:S, and there is no such file"),
    ],
)
def test_no_distribution(text: str, message: str) -> None:
    """The message says what there is."""
    with pytest.raises(UsageError, match=message):
        choose_expert_load(text, None)


def test_a_torch_that_cannot_follow() -> None:
    """Before 2.9 routing is not made up, so another distribution would do nothing in silence."""
    torch = Torch("2.8.0+cu128", "12.8", Path("/torch"))
    with pytest.raises(UsageError, match=r"needs PyTorch 2\.9 or later; this is 2\.8\.0"):
        choose_expert_load("zipf:1", torch)
    assert choose_expert_load("uniform", torch).is_uniform
