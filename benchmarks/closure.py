"""Chakra's files alone give the run back: each rank's makespan, and the order of its collectives.

    python benchmarks/closure.py [--programs NAME ...] [--host-time fixed counted] [--json]

Each program runs on simulated H100s, is exported with `phantora report --chakra`, and the exported
folder is simulated again. `makespan, %`: the largest difference of a rank, at most 0.1; `order`:
whether all collectives begin in the order of the run, by rank and overall; `starts, ns`: the
largest difference of a start. `without events` and `without edges` are controls: the same without
the edges between streams, and without these and the order within streams; they must fail.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measurement import Results, parser
from replays import EXAMPLES, PROGRAMS, SMALL, Program, Runs

from phantora_py.cli import main as phantora
from phantora_py.data import RunData
from sim_server.chakra.execution_trace_pb2 import Node
from sim_server.chakra.files import attribute, read_trace, write_trace
from sim_server.chakra.graph import Step
from sim_server.log.history import HOST_WAIT_SPAN

MOST_PERCENT = 0.1
LLAMA = ("--layers", "2", "--width", "2048", "--heads", "16", "--tp", "2", "--steps", "3")
KINDS = {
    "DDP": Program(4, (EXAMPLES / "train_gpt_ddp.py", *SMALL)),
    "FSDP2": Program(4, (EXAMPLES / "train_gpt_fsdp.py", *SMALL, "--batch", "16")),
    "TP, FSDP2": Program(4, (EXAMPLES / "train_llama.py", *LLAMA)),
    "PP, 1F1B": Program(4, (PROGRAMS / "pipelining.py", "1F1B", "4")),
    "PP, interleaved": Program(4, (PROGRAMS / "pipelining.py", "Interleaved1F1B", "8")),
    "EP": Program(4, (PROGRAMS / "experts.py",)),
}
Edit = Callable[[Sequence[Node]], None]


@dataclass(frozen=True)
class Closure:
    """How far a simulation of traces is from the run."""

    most_percent: float
    most_start_ns: int | None
    """None: other operations, or in another order."""

    @property
    def holds(self) -> bool:
        """Makespans within the bound, and the order of the run."""
        return self.most_percent <= MOST_PERCENT and self.most_start_ns is not None


def makespan_ns(data: RunData, rank: int) -> int:
    """From the begin of the rank's first work to the end of its last."""
    spans = data.spans_of(rank)
    work = spans[spans["kind"] != HOST_WAIT_SPAN]
    return int(work["end_ns"].max() - work["start_ns"].min())


def begun(data: RunData) -> list[tuple[int, str]]:
    """Operations in the order in which they began to move: when, and what."""
    keys = ("members", "kind", "count", "dtype")
    rows = [(one["moves_ns"], [str(one[key]) for key in keys]) for one in data.operations]
    return [(moves_ns, " ".join(told)) for moves_ns, told in sorted(rows)]


def compare(run: RunData, again: RunData) -> Closure:
    """A run, and what came of its traces."""
    pairs = [[makespan_ns(data, rank) for data in (run, again)] for rank in range(run.ranks)]
    most = max(abs(found / expected - 1) for expected, found in pairs)
    one, other = begun(run), begun(again)
    apart_ns = None
    if [what for _, what in one] == [what for _, what in other]:
        apart_ns = max((abs(a - b) for (a, _), (b, _) in zip(one, other, strict=True)), default=0)
    return Closure(100 * most, apart_ns)


def without_events(nodes: Sequence[Node]) -> None:
    """Nothing waits for another stream, and the host for none."""
    streams = {node.id: Step(node).attributes.get("stream") for node in nodes}
    for node in nodes:
        kept = [one for one in node.data_deps if streams[one] == streams[node.id]]
        del node.data_deps[:]
        node.data_deps.extend(kept)


def without_edges(nodes: Sequence[Node]) -> None:
    """Nothing waits for other work: each has a stream of its own."""
    for node in nodes:
        del node.data_deps[:]
        if not Step(node).is_host:
            kept = [one for one in node.attr if one.name != "stream"]
            del node.attr[:]
            node.attr.extend([*kept, attribute("stream", 1000 + node.id)])


def edited(folder: Path, edit: Edit) -> Path:
    """The traces of a folder, changed, in another folder."""
    path = folder.with_name(f"{folder.name}-{edit.__name__}")
    path.mkdir()
    for one in sorted(folder.iterdir()):
        trace = read_trace(one)
        edit(trace.nodes)
        with (path / one.name).open("wb") as file:
            write_trace(file, trace.metadata, trace.nodes)
    return path


def simulated(folder: Path) -> RunData | None:
    """The traces of a folder, simulated; None: that is refused, or does not end."""
    output = folder.with_suffix(".phr")
    words = ["resimulate", str(folder), "--cluster", "h100", "-o", str(output), "--quiet"]
    return RunData(output) if phantora(words) == 0 else None


def shown(closure: Closure | None) -> str:
    """What a control shows."""
    if closure is None:
        return "fails: no run"
    if closure.holds:
        return "HOLDS"
    order = "" if closure.most_start_ns is not None else ", other order"
    return f"fails: {closure.most_percent:.2g} %{order}"


def closures(runs: Runs, folder: Path, names: Sequence[str], host_times: Sequence[str]) -> Results:
    """Every program with every model of host time."""
    columns = ["program", "host time", "nodes", "makespan, %", "order", "starts, ns"]
    results = Results("Closure of Chakra traces", [*columns, "without events", "without edges"])
    for name in names:
        for host_time in host_times:
            program = KINDS[name]
            path = runs.run(program.ranks, program.words, "--host-time", host_time)
            traces = folder / path.stem
            assert phantora(["report", str(path), "--chakra", str(traces)]) == 0
            run, again = RunData(path), simulated(traces)
            assert again is not None, name
            found = compare(run, again)
            controls = [
                shown(None if one is None else compare(run, one))
                for edit in (without_events, without_edges)
                for one in [simulated(edited(traces, edit))]
            ]
            nodes = sum(len(read_trace(one).nodes) for one in traces.iterdir())
            order = "other" if found.most_start_ns is None else "same"
            figures = (found.most_percent, order, found.most_start_ns)
            results.add(name, host_time, nodes, *figures, *controls)
    return results


def main() -> int:
    """Exit code 1 if a run is not given back, or a control is."""
    options = parser(__doc__)
    options.add_argument("--programs", nargs="*", default=list(KINDS), choices=list(KINDS))
    options.add_argument("--host-time", nargs="*", default=["fixed", "counted"])
    told = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        names = told.programs
        results = closures(Runs(place), place, names, told.host_time)
    results.show(told.json)
    good = all(
        row["order"] == "same"
        and isinstance(row["makespan, %"], float)
        and row["makespan, %"] <= MOST_PERCENT
        and "HOLDS" not in (row["without events"], row["without edges"])
        for row in results.rows
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
