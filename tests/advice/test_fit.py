"""`phantora fit`: the search by itself, the command's words, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from phantora_py.advice.fit import AS_GIVEN, value_of, ways, with_value
from phantora_py.advice.largest import Attempt, largest
from phantora_py.cli import main
from sim_server.errors import UsageError

CAPACITY = 1000


def machine(size_bytes: Callable[[int], float], tried: list[int]) -> Callable[[int], Attempt]:
    """Whatever takes that much memory; notes what is tried."""

    def attempt(value: int) -> Attempt:
        tried.append(value)
        taken = int(size_bytes(value))
        fits = taken <= CAPACITY
        return Attempt(value, fits, taken if fits else 0, CAPACITY)

    return attempt


@pytest.mark.parametrize("start", [1, 5, 64, 1000])
@pytest.mark.parametrize(
    "size_bytes",
    [
        lambda value: 10 * value,
        lambda value: 300 + 7 * value,
        lambda value: 100 + 0.02 * value**2,
        lambda value: 128 * (value // 16 + 1),  # in segments
        lambda value: 500 if value < 37 else 2000,
        lambda value: 2000,
    ],
)
def test_as_if_all_were_tried(size_bytes: Callable[[int], float], start: int) -> None:
    """The largest, wherever one begins; no value twice, and few of them."""
    tried: list[int] = []
    found = largest(machine(size_bytes, tried), start, 10_000)
    expected = max((one for one in range(1, 10_000) if size_bytes(one) <= CAPACITY), default=None)
    assert (found.fits, found.refused) == (expected, (expected or 0) + 1)
    assert len(tried) == len(set(tried)) <= 24, tried


def test_a_line_is_found_at_once() -> None:
    """Two points make a line, whose end and the value after it are tried."""
    tried: list[int] = []
    largest(machine(lambda value: 300 + 7 * value, tried), 40, 10_000)
    assert tried == [40, 80, 100, 101]


@pytest.mark.parametrize(("each", "expected"), [(100, [11, 10]), (110, [11, 10, 5, 7, 8, 9])])
def test_what_fits_otherwise_is_tried_before_the_middle(each: int, expected: list[int]) -> None:
    """What saves no memory ends after two tries; what takes more is found out."""
    tried: list[int] = []
    found = largest(machine(lambda value: each * value, tried), 11, 10_000, likely=10)
    assert tried == expected
    assert found.fits == CAPACITY // each


def test_no_more_than_asked_for() -> None:
    """Whatever fits."""
    tried: list[int] = []
    found = largest(machine(lambda _: 1, tried), 8, 100)
    assert (found.fits, found.refused) == (100, None)
    assert max(tried) == 100


@pytest.mark.parametrize(
    ("command", "expected", "value"),
    [
        ("a.py --batch 4 --x", "a.py --batch 9 --x", 4),
        ("a.py --batch=4", "a.py --batch=9", 4),
        ("a.py", "a.py --batch 9", 1),
    ],
)
def test_the_flag_in_the_command(command: str, expected: str, value: int) -> None:
    """Is replaced, or added."""
    assert value_of(command.split(), "--batch") == value
    assert with_value(command.split(), "--batch", 9) == expected.split()


@pytest.mark.parametrize("text", ["0", "-1", "auto", "2.5", ""])
def test_a_value_without_a_largest(text: str) -> None:
    """Is named."""
    with pytest.raises(UsageError, match="is no whole number of at least 1"):
        value_of(["a.py", f"--batch={text}"], "--batch")


def test_ways() -> None:
    """Expandable segments unless they are on; together what is more than one."""
    assert [one.name for one in ways([], {})] == [AS_GIVEN, "expandable segments"]
    on = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert [one.name for one in ways([], on)] == [AS_GIVEN]
    *_, together = ways(["--checkpoint full"], {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"})
    assert together.words == ("--checkpoint", "full")
    assert together.environment == {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True"
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--flag", "--batch"], "There is no command"),
        (["--", "python", "a.py"], "--flag is missing"),
        (["--flag", "--batch", "--most", "0", "--", "python", "a.py"], "--most takes a number"),
        (["--flag", "--batch", "--", "python", "a.py", "--batch", "x"], "'x' is no whole number"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    """Before anything is run."""
    monkeypatch.chdir(tmp_path)
    assert main(["fit", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
