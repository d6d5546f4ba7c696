"""The last line of a sweep: which is the fastest, and whether that can be told apart."""

from __future__ import annotations

from pathlib import Path

from compared_runs import US, certain_members, write_run

from phantora_py.compare.comparison import compare, read_configuration
from phantora_py.compare.fastest import fastest_text, find_fastest
from phantora_py.compare.quantities import parse_prices


def said(*paths: Path) -> str:
    """Of runs that are called as their files."""
    runs = [read_configuration(path, path.stem) for path in paths]
    found = find_fastest(runs, compare(runs, parse_prices([]))["runs"])
    assert found is not None
    return fastest_text(found)


def test_the_fastest_stands_against_the_next(tmp_path: Path) -> None:
    """Wherever they are in the list; runs of equal models are told apart by what differs."""
    one, fast, slow = (
        write_run(tmp_path / f"{name}.phr", [time_us * US] * 9, **certain_members())
        for name, time_us in (("one", 42), ("fast", 40), ("slow", 80))
    )
    assert said(slow, one, fast).startswith("Fastest: fast, 1.050 times as fast as the next, one (")
    assert said(fast) == "fast is the only one that finished."


def test_those_that_cannot_be_told_apart(tmp_path: Path) -> None:
    """On another GPU each errs in its own way; without intervals it is not known."""
    one = write_run(tmp_path / "one.phr", [40 * US] * 9, **certain_members())
    run = {"cluster": {"gpu": "a100"}}
    other = write_run(tmp_path / "other.phr", [42 * US] * 9, run=run, **certain_members())
    assert "one, 1.050 times as fast as the next, other: the two cannot be told apart" in said(
        other, one
    )
    single = write_run(tmp_path / "single.phr", [40 * US])
    last = write_run(tmp_path / "last.phr", [50 * US])
    assert said(last, single).endswith("is more than the error of the models is not known.")


def test_what_did_not_finish_is_not_the_fastest(tmp_path: Path) -> None:
    """There is none if none did."""
    path = write_run(tmp_path / "one.phr", [40 * US] * 9, run={"exit_code": 4})
    runs = [read_configuration(path, "one")]
    assert find_fastest(runs, compare(runs, parse_prices([]))["runs"]) is None


def test_the_factor_is_of_a_unit_of_work(tmp_path: Path) -> None:
    """Also where the reports tell the work of an iteration, and nobody else: a larger batch is the
    faster one although its iterations last longer.
    """
    paths = [
        write_run(tmp_path / f"{name}.phr", [time_us * US] * 9, **certain_members())
        for name, time_us in (("small", 40), ("large", 80))
    ]
    runs = [read_configuration(path, path.stem) for path in paths]
    figures = compare(runs, parse_prices([]))["runs"]
    for run, tokens in zip(figures, (1000.0, 4000.0), strict=True):
        run["throughput"] = {"unit": "tokens", "per_iteration": tokens, "per_s": 1.0}
    found = find_fastest(runs, figures)
    assert found is not None
    assert fastest_text(found).startswith("Fastest: large, 2.000 times as fast as the next, small")
