"""Managed memory: its values, what it takes, where it counts."""

from __future__ import annotations

import re

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from sim_server.gpu import load_gpu

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "managed.py"
TENSOR_BYTES = 256 << 20


@pytest.fixture(scope="module")
def run(phantora: Phantora) -> Run:
    pytest.importorskip("torch", minversion="2.9")  # compiles kernels
    done = phantora.run(["--ranks", "1"], [PROGRAM])
    assert done.exit_code == 0, done.errors
    return done


def place_of(words: str) -> str:
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    number = next(number for number, text in enumerate(lines, 1) if words in text)
    return f"{PROGRAM}:{number}"


def milliseconds(run: Run, words: str) -> list[float]:
    (line,) = re.findall(rf"^{words} .*$", run.output, re.MULTILINE)
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


def test_known_values_are_there(run: Run) -> None:
    """What an operator of known values leaves, and a fill, the host reads without a call."""
    reversed_ = [4.0, 3.0, 2.0, 1.0]
    assert f"by an operator: {reversed_} {reversed_}" in run.output
    assert "by a fill: [0.0, 3.0, 2.0, 1.0]" in run.output


def test_what_a_kernel_leaves_is_unknown(run: Run) -> None:
    """Zeros, and a read at the launch's line, of what the host has looked at and nothing else."""
    assert "unknown: 0.0" in run.output
    assert "only read: [1.0, 2.0, 3.0, 4.0]" in run.output
    assert "may be written: [0.0, 0.0, 0.0, 0.0]" in run.output
    rows = {row["place"]: row for row in run.summary["trust"]["unknown_reads"]}
    assert set(rows) == {place_of("# brings"), place_of("# may write")}
    assert run.summary["trust"]["synthetic_reads"] == 2


def test_pages_move_once(run: Run) -> None:
    """At the link's rate to the device; then they are the device's."""
    copies = load_gpu("h100").copies
    moving_ms = TENSOR_BYTES / copies["pinned_bytes_per_s"] * 1e3
    once, again = milliseconds(run, "first")
    assert once - again == pytest.approx(moving_ms, rel=0.05)
    assert again < 0.1 * moving_ms


def test_what_stays_on_the_host_crosses_the_link_every_time(run: Run) -> None:
    """As far as the kernel moves so much: it reads and writes more than there is."""
    link_ms = TENSOR_BYTES / load_gpu("h100").copies["pinned_bytes_per_s"] * 1e3
    for stays_ms in milliseconds(run, "stays"):
        assert stays_ms == pytest.approx(link_ms, rel=0.05)
    assert run.summary["trust"]["gpu_time_share"]["assumed"] > 0


def test_memory_counts_while_it_is_on_the_device(run: Run) -> None:
    (peak,) = run.summary["memory"]["peak_device_bytes"]
    assert TENSOR_BYTES < peak < TENSOR_BYTES + (4 << 30)
