"""Values of small tensors in random programs, and in memory that the host and the device share.

amounts.py says how many programs, and the first one's seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from amounts import SEED, inputs
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

EXAMPLES = inputs(40, one_in=50)


@pytest.fixture
def phantora(tmp_path: Path) -> Iterator[Phantora]:
    phantora = Phantora(tmp_path)
    yield phantora
    phantora.close()


def test_random_programs_read_no_wrong_value(phantora: Phantora) -> None:
    """After each step every element equals the CPU's or is unknown; most are known."""
    wrong = []
    right = unknown = 0
    for first in range(SEED, SEED + EXAMPLES, 200):
        count = min(200, SEED + EXAMPLES - first)
        numbers = ["--seed", str(first), "--programs", str(count)]
        run = phantora.run(["--ranks", "1"], [PROGRAMS / "random_values.py", *numbers])
        assert run.exit_code == 0, run.errors
        wrong += re.findall(r"^seed \d+: .*$", run.output, re.MULTILINE)
        counts = json.loads(re.findall(r"^\{.*\}$", run.output, re.MULTILINE)[-1])
        right += counts["right"]
        unknown += counts["unknown"]
    assert wrong == []
    assert right > unknown


def test_pinned_memory_hides_no_write(phantora: Phantora) -> None:
    """A kernel that finds pointers in pinned host memory writes through them; one that gets pinned
    memory may write that, and the launch counts as a read.
    """
    pytest.importorskip("torch", minversion="2.9")  # compiles kernels
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "pinned_kernels.py"])
    assert run.exit_code == 0, run.errors
    assert "changed through a table: [0, 0, 0, 0]" in run.output
    assert "not changed: [3, 4, 5, 6]" in run.output
    # The launches with pinned memory, and the read of the numbers.
    assert run.summary["trust"]["synthetic_reads"] == 3


def test_tensors_in_pinned_memory_hide_no_write(phantora: Phantora) -> None:
    """What the host finds in a tensor of the device that lies there is right or counted."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "pinned_tensors.py"])
    assert run.exit_code == 0, run.errors
    found = dict(line.split(": ") for line in run.output.splitlines() if line.startswith("after "))
    wrong = [name for name, is_right in found.items() if is_right == "wrong"]
    assert len(found) == 8
    assert len(wrong) < len(found)
    assert run.summary["trust"]["synthetic_reads"] >= len(wrong)


def test_device_memory_between_pinned_memory_is_no_pinned_memory(phantora: Phantora) -> None:
    """What is written there is unknown afterwards: it was looked for among pinned memory."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "pinned_below.py"])
    assert run.exit_code == 0, run.errors
    assert run.summary["trust"]["synthetic_reads"] == 1


def test_kernels_write_through_addresses_at_any_byte(phantora: Phantora) -> None:
    """Of a packed structure in known memory, on the device and pinned; small numbers are none."""
    pytest.importorskip("torch", minversion="2.9")  # compiles kernels
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "packed_addresses.py"])
    assert run.exit_code == 0, run.errors
    *written, beside = run.output.splitlines()
    assert len(written) == 8
    assert all(line.endswith(": [0, 0, 0, 0]") for line in written)
    assert beside == "beside them: [3, 4, 5, 6]"


def test_kernels_write_through_addresses_in_unknown_memory(phantora: Phantora) -> None:
    """An address that the program has made a number on the device may be in any memory there."""
    pytest.importorskip("torch", minversion="2.9")  # compiles kernels
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "kernels_by_address.py"])
    assert run.exit_code == 0, run.errors
    for name in ("uploaded", "operand", "filled"):
        assert f"{name}: [0, 0, 0, 0], beside it [3, 4, 5, 6]" in run.output
    assert run.summary["trust"]["synthetic_reads"] == 3
