"""What memory held at its peak, by module and kind: as text, as a page, as PyTorch's snapshot."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pages
import pytest
from made_runs import make_run

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.module_memory import held_memory
from phantora_py.report.page.render import make_page
from phantora_py.report.sections import module_memory as section
from phantora_py.report.summary import summarise
from sim_server.errors import UsageError
from sim_server.records import MemoryKind

MIB = 1 << 20
FORWARD, BACKWARD = 1, 3
NET, LAYER = 1, 2
PARAMETERS, OPTIMIZER = 1, 3
IN_USE = -1
SEGMENT = 0x7F0000000000
# Rank, device, address, bytes, taken at, for what, given back in what, kind, of which module.
BLOCKS = [
    (0, 0, SEGMENT, 4 * MIB, 10, 0, IN_USE, PARAMETERS, LAYER),
    (0, 0, SEGMENT + 4 * MIB, 8 * MIB, 20, LAYER << 3 | FORWARD, BACKWARD, 0, 0),
    (0, 0, SEGMENT + 16 * MIB, 2 * MIB, 30, NET << 3 | FORWARD, NET << 3 | FORWARD, 0, 0),
    (0, 0, SEGMENT + 32 * MIB, 1 * MIB, 40, LAYER << 3 | BACKWARD, IN_USE, 0, 0),
    (0, 0, SEGMENT + 33 * MIB, 3 * MIB, 50, 0, IN_USE, OPTIMIZER, LAYER),
    (0, 0, SEGMENT + 36 * MIB, 512, 60, 0, IN_USE, 0, 0),
    (1, 0, SEGMENT, MIB, 10, 0, IN_USE, PARAMETERS, LAYER),
]
ALLOCATED = 18 * MIB + 512
PATHS = [[rank, number, path] for rank in (0, 1) for number, path in ((1, "Net"), (2, "Net.0"))]
# The second half of what the third block has lies in another part of an expandable segment.
TAKEN = [(0, 17 * MIB), (17 * MIB, 3 * MIB), (32 * MIB, 8 * MIB), (64 * MIB, 2 * MIB)]


def run_of(path: Path, blocks: Sequence[tuple[int, ...]] = BLOCKS) -> RunData:
    """Of two ranks, of which the first is fuller."""
    in_use = 0
    allocations = []
    for begin, size in TAKEN:
        in_use += size
        kind = int(MemoryKind.DEVICE)
        allocations.append([0, 5, 0, kind, size, in_use, SEGMENT + begin, "train.py:1 main"])
    return make_run(path, [(), ()], peak_blocks=blocks, modules=PATHS, allocations=allocations)


def test_phases_tell_what_nobody_has_marked(tmp_path: Path) -> None:
    """Of the fullest rank: kept by a forward pass, given back in it, taken in a backward pass."""
    memory = held_memory(run_of(tmp_path / "a.phr"))
    assert memory is not None
    assert (memory.rank, memory.device, memory.size_bytes) == (0, 0, ALLOCATED)
    assert memory.sums() == {
        ("parameters", "Net.0"): 4 * MIB,
        ("activations", "Net.0"): 8 * MIB,
        ("temporary", "Net"): 2 * MIB,
        ("temporary", "Net.0"): 1 * MIB,
        ("optimizer states", "Net.0"): 3 * MIB,
        ("other", ""): 512,
    }


def test_a_line_for_each_module(tmp_path: Path) -> None:
    """On a terminal and in the JSON; modules of a list are one row."""
    made = summarise(run_of(tmp_path / "a.phr"))["module_memory"]
    assert made is not None
    assert made["held"][0] == {"path": "Net.0", "kind": "activations", "bytes": 8 * MIB}
    head, names, *said = section.lines(made)
    assert head.strip() == "memory by module, 18.0 MiB allocated at the peak of rank 0"
    assert names.split() == [
        *("all", "together", "parameters", "optimizer", "states", "activations"),
        *("temporary", "other"),
    ]
    assert [" ".join(line.split()) for line in said] == [
        "Net.* 16.0 MiB 88.9 % 4.00 MiB 3.00 MiB 8.00 MiB 1.00 MiB -",
        "Net 2.00 MiB 11.1 % - - - 2.00 MiB -",
        "(no module) 512 B < 0.1 % - - - - 512 B",
    ]


def test_nothing_is_said_where_nobody_told(tmp_path: Path) -> None:
    """Of a run without --modules."""
    data = run_of(tmp_path / "a.phr", [])
    assert summarise(data)["module_memory"] is None
    assert 'id="module_memory"' not in make_page(data)


def test_the_page_draws_them(tmp_path: Path) -> None:
    """Kinds on top, as wide as what they hold, and their modules below."""
    data = run_of(tmp_path / "a.phr")
    shown = pages.section(pages.page_of(data, tmp_path / "a.html"), "module_memory")
    assert [row[0] for row in shown.rows()] == ["Net.*", "Net", "(no module)"]
    (graph,) = [one for one in shown.all("div") if one.attributes.get("class") == "flame"]
    tops = [*next(iter(graph.all("div"))).all("span")]
    assert [one.text for one in tops] == [
        "parameters",
        "optimizer states",
        "activations",
        "temporary",
    ]
    assert tops[1].attributes["class"] == "kind-optimizer-states"
    assert "3.00 MiB" in tops[1].attributes["title"]


def snapshot_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """As the command writes it."""
    out = tmp_path / "a.pickle"
    run_of(tmp_path / "a.phr")
    assert main(["report", str(tmp_path / "a.phr"), "--memory-snapshot", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"Wrote {out} (")
    return dict(pickle.loads(out.read_bytes()))


def test_a_snapshot_has_segments_and_what_is_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A block that lies in two parts of the driver's makes them one segment; gaps are inactive."""
    made = snapshot_of(tmp_path, capsys)
    assert [(one["address"] - SEGMENT, one["total_size"]) for one in made["segments"]] == [
        (0, 20 * MIB),
        (32 * MIB, 8 * MIB),
        (64 * MIB, 2 * MIB),
    ]
    for segment in made["segments"]:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    states = [block["state"] for block in made["segments"][0]["blocks"]]
    assert states == [
        "active_allocated",
        "active_allocated",
        "inactive",
        "active_allocated",
        "inactive",
    ]
    frames = made["segments"][0]["blocks"][1]["frames"]
    assert [one["name"] for one in frames] == ["Net.0", "Net", "activations"]
    assert {one["filename"] for one in frames} == {"forward"}
    (events,) = made["device_traces"]
    assert [one["action"] for one in events].count("alloc") == 6


@pytest.mark.torch
def test_pytorch_reads_the_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own functions sum it up and draw it."""
    torch_viz = pytest.importorskip("torch.cuda._memory_viz")
    made = snapshot_of(tmp_path, capsys)
    summary = torch_viz.segsum(made)
    assert "segments: 3" in summary
    assert "total_allocated: 18.0MiB" in summary
    assert "Net.0" in torch_viz.memory(made, format_flamegraph="".join)
    assert "alloc" in torch_viz.trace(made)
    for is_of_segments in (False, True):
        assert "Timeline" in torch_viz.trace_plot(made, plot_segments=is_of_segments)
    assert "Allocator State History" in torch_viz.segment_plot(made)


def test_a_run_that_does_not_know_has_no_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how to make one that does."""
    run_of(tmp_path / "a.phr", [])
    out = tmp_path / "a.pickle"
    assert main(["report", str(tmp_path / "a.phr"), "--memory-snapshot", str(out)]) == 2
    assert "phantora run --modules" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((2, 0, SEGMENT, MIB, 10, 0, IN_USE, 1, 1), "is of a rank that there is not"),
        ((0, 0, SEGMENT, 0, 10, 0, IN_USE, 1, 1), "has no size"),
        ((0, 0, SEGMENT, MIB, 10, 7, IN_USE, 1, 1), "was taken in no phase"),
        ((0, 0, SEGMENT, MIB, 10, 0, 6, 1, 1), "was given back in no phase"),
        ((0, 0, SEGMENT, MIB, 10, 0, IN_USE, 9, 1), "is of no kind"),
    ],
)
def test_damage_is_refused(tmp_path: Path, change: tuple[int, ...], said: str) -> None:
    """When the file is opened."""
    with pytest.raises(UsageError, match=said):
        run_of(tmp_path / "a.phr", [change])
