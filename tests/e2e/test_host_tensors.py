"""Host tensors that are only filled take no memory; values that programs rely on stay true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.summary import summarise, summary_lines

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "host_tensors.py"


def run_program(phantora: Phantora, directory: Path, mode: str) -> Run:
    """The program with one setting of the switch; "" leaves it as it is."""
    switch = ["--host-tensors", mode] if mode else []
    run = phantora.run(["--ranks", "1", *switch], [PROGRAM, directory])
    assert run.exit_code == 0, run.errors
    return run


@pytest.fixture(scope="module")
def lazy(phantora: Phantora, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_program(phantora, tmp_path_factory.mktemp("lazy"), "")


@pytest.fixture(scope="module")
def real(phantora: Phantora, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_program(phantora, tmp_path_factory.mktemp("real"), "real")


def found(run: Run) -> dict[str, Any]:
    """What the program printed."""
    return dict(json.loads(run.output))


def test_what_nobody_asks_for_takes_no_memory(lazy: Run, real: Run) -> None:
    """However the tensors come about; there are 70 MiB of them at the first step already."""
    taken_mib = found(lazy)["unasked"]
    assert len(taken_mib) == 7
    assert all(step_mib < 10 for step_mib in taken_mib.values()), taken_mib
    assert all(step_mib > 60 for step_mib in found(real)["unasked"].values())


def test_checkpoint_is_mapped(lazy: Run) -> None:
    """Its values are there, without memory; the small ones outlive the file."""
    checkpoint = found(lazy)["checkpoint"]
    assert (checkpoint["seen"], checkpoint["small"]) == ([2 * 1024 * 3.0], [36.0])
    assert checkpoint["taken_mib"] < 10


def test_values_that_programs_rely_on_are_true(lazy: Run, real: Run) -> None:
    """Constants, integers, what is written over, small random numbers; errors are raised."""
    for part in ("small", "exact", "errors", "child"):
        assert found(lazy)[part] == found(real)[part]
    assert len(found(lazy)["errors"]) == 4
    assert found(lazy)["child"] is True
    assert found(real)["item"] != 0.0


def test_random_numbers_that_decide_are_drawn(lazy: Run, real: Run) -> None:
    """Of masks, orders, choices and integers; copies have the same, but for what was written."""
    for run in (lazy, real):
        assert found(run)["decided"] == [True] * 13


def test_copies_have_what_was_written(lazy: Run, real: Run) -> None:
    """Into a tensor that was left: in any layout, type or part; the rest is zeros."""
    last = 3.0 * (1024 - 800)
    for run in (lazy, real):
        copies = found(run)["copies"]
        assert [written for *written, _ in copies] == [
            *([4.0, last], [4.0, last], [4.0, 0.0], [4.0, last], [4.0, last])
        ]
    assert [whole for *_, whole in found(lazy)["copies"]] == [
        *(4.0 + last, 4.0 + last, 4.0, 4.0 + last, 4.0 + last)
    ]


def test_random_numbers_are_the_same_at_every_run(
    lazy: Run, phantora: Phantora, tmp_path: Path
) -> None:
    """Those that are left out are not drawn, so later ones are others than on hardware."""
    again = run_program(phantora, tmp_path, "lazy")
    assert found(again)["small, later"] == found(lazy)["small, later"]


def test_virtual_time_does_not_notice(lazy: Run, real: Run) -> None:
    """With host time that does not measure the machine."""
    assert lazy.summary["digest"] == real.summary["digest"]


def test_report_names_what_was_left_and_used(lazy: Run, real: Run) -> None:
    """Amounts and Python lines; the one value that was looked at counts as its page."""
    left = lazy.summary["host_tensors"]
    assert left["mode"] == "lazy"
    assert left["bytes"] == left["most_of_a_rank_bytes"] > 300 << 20
    assert {site["what"] for site in left["sites"]} == {"random", "zero", "copy", "load"}
    lines = PROGRAM.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# looked at"))
    site = f"{PROGRAM}:{line} main"
    assert {"site": site, "tensors": 1, "bytes": 4096} in left["used_sites"]
    assert left["used_bytes"] == sum(used["bytes"] for used in left["used_sites"])
    unasked = [used["site"] for used in left["used_sites"] if used["site"].endswith(" unasked")]
    assert unasked == []
    assert "was used after all, as zeros" in "\n".join(summary_lines(summarise(lazy.data)))
    nothing = {"operations": 0, "bytes": 0, "most_of_a_rank_bytes": 0, "sites": []}
    assert real.summary["host_tensors"] == {
        **{"mode": "real", "used_bytes": 0, "used_sites": []},
        **nothing,
    }


def test_lines_before_the_first_use_of_a_gpu(phantora: Phantora) -> None:
    """A process of --gpus is no rank until then, and its lines are told all the same."""
    program = PROGRAMS / "filled_before_use.py"
    run = phantora.run(["--gpus", "1"], [program])
    assert run.exit_code == 0, run.errors
    lines = program.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# filled"))
    left = run.summary["host_tensors"]
    told = [site["site"] for site in (*left["sites"], *left["used_sites"])]
    assert told == [f"{program}:{line} <module>"] * 2
