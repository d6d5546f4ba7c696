"""Out of memory: the program sees what it sees on hardware, the report says where."""

from __future__ import annotations

import re

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.summary import summarise, summary_lines

pytestmark = pytest.mark.torch

GIB = 1 << 30


@pytest.fixture(scope="module")
def run(phantora: Phantora) -> Run:
    return phantora.run(["--ranks", "2"], [PROGRAMS / "memory.py"])


def test_the_program_sees_out_of_memory_error(run: Run) -> None:
    """With PyTorch's own figures, which are those of cudaMemGetInfo; it can go on after it."""
    assert run.exit_code == 0, run.errors
    free_bytes, total_bytes, text = run.output.split(" ", 2)
    assert "CUDA out of memory. Tried to allocate 60.00 GiB" in text
    capacity, free = re.findall(r"capacity of ([\d.]+) GiB of which ([\d.]+) GiB is free", text)[0]
    assert float(capacity) == pytest.approx(int(total_bytes) / GIB, abs=0.01)
    assert float(free) == pytest.approx(int(free_bytes) / GIB, abs=0.01)


def test_the_report_says_rank_amounts_and_line(run: Run) -> None:
    """The Python line is the one that asked."""
    memory = run.summary["memory"]
    assert memory["fits"] is False
    refused = memory["out_of_memory"]
    assert {one["rank"] for one in refused} == {1}
    free_bytes = int(run.output.split()[0])
    assert refused[0]["asked_bytes"] == 60 * GIB
    assert refused[0]["free_bytes"] == free_bytes
    program = PROGRAMS / "memory.py"
    lines = program.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# too much"))
    assert refused[0]["site"] == f"{program}:{line} main"
    expected = f"rank 1 ran out of memory[/]: asked 60.0 GiB, free {free_bytes / GIB:.1f} GiB"
    assert any(expected in text for text in summary_lines(summarise(run.data)))


def test_peaks(run: Run) -> None:
    """What was refused is in no peak; the context takes its part beside PyTorch's."""
    memory = run.summary["memory"]
    assert memory["peak_allocated_bytes"] == memory["peak_reserved_bytes"] == [40 * GIB] * 2
    assert all(40 * GIB < peak < 42 * GIB for peak in memory["peak_device_bytes"])


def test_explicit_marks_are_found(run: Run) -> None:
    """A program may say itself what an iteration is."""
    iterations = run.summary["iterations"]
    assert (iterations["detected_by"], iterations["count"]) == ("marker", 2)
