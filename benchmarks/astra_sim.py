"""Exported Chakra files in ASTRA-sim's analytical back end: whether all of them runs, and how long.

    python benchmarks/astra_sim.py [--source FOLDER] [--cmake=OPTION ...] [--programs NAME ...]
                                   [--json]

Without --source, ASTRA-sim and what it is made of is fetched; then it is built in build/astra-sim,
which needs CMake, a C++ compiler, protoc and Protobuf's library. Each program of closure.py runs on
simulated H100s and is exported. ASTRA-sim gets the exported folder, its own description of a node
of H100s (links of 400 GB/s, rings), and which ranks each process group has. `over`: nodes that it
did not finish. `step`: from the end of the work before the first step's mark to that before the
last, each divided by the steps between: computed alike from the trace and from ASTRA-sim's log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from closure import KINDS
from measurement import Results, parser
from replays import ROOT, Runs

from phantora_py.cli import main as phantora
from phantora_py.traces.folder import TraceFolder, read_folder
from sim_server.chakra.graph import Step
from sim_server.records import MarkerKind

SOURCE = "https://github.com/astra-sim/astra-sim"
BUILD = ROOT / "build" / "astra-sim"
BINARY = "AstraSim_Analytical_Congestion_Unaware"
LIMIT_S, TRIES = 600, 5
_FINISHED = re.compile(r"callback,sys->id=(\d+), tick=(\d+), node->id=(\d+),")


def built(source: Path | None, options: Sequence[str]) -> tuple[Path, Path]:
    """The source and the program, made if it is not there."""
    if source is None:
        source = BUILD / "source"
        if not source.exists():
            words = ["--quiet", "--recursive", "--depth", "1"]
            subprocess.run(["git", "clone", *words, SOURCE, source], check=True)
    binary = BUILD / "bin" / BINARY
    if not binary.exists():
        schema = source / "extern" / "graph_frontend" / "chakra" / "schema" / "protobuf"
        folders = [f"--proto_path={schema}", f"--cpp_out={schema}"]
        protoc = os.environ.get("PROTOC", "protoc")
        subprocess.run([protoc, *folders, schema / "et_def.proto"], check=True)
        what = "-DBUILDTARGET=congestion_unaware"
        project = source / "build" / "astra_analytical"
        subprocess.run(["cmake", "-S", project, "-B", BUILD, what, *options], check=True)
        subprocess.run(["cmake", "--build", BUILD, "-j", str(os.cpu_count())], check=True)
    return source, binary


def described(source: Path, folder: TraceFolder, place: Path) -> list[str]:
    """ASTRA-sim's options for a folder of traces."""
    examples = source / "examples"
    network = (examples / "network/analytical/HGX-H100-validated.yml").read_text()
    counted = re.sub(r"npus_count:.*", f"npus_count: [ {folder.ranks} ]", network)
    (place / "network.yml").write_text(counted)
    own = json.loads((examples / "system/native_collectives/HGX-H100-validated.json").read_text())
    (place / "system.json").write_text(json.dumps(own | {"trace-enabled": 1}))
    memory = "remote_memory/analytical/no_memory_expansion.json"
    shutil.copy(examples / memory, place / "memory.json")
    # The group 0 is that of all ranks, which has no description there.
    groups = {name: ranks for name, ranks in folder.groups.items() if name.strip("0").isdigit()}
    (place / "groups.json").write_text(json.dumps(groups))
    return [
        f"--workload-configuration={folder.path / 'chakra'}",
        f"--comm-group-configuration={place / 'groups.json'}",
        f"--system-configuration={place / 'system.json'}",
        f"--remote-memory-configuration={place / 'memory.json'}",
        f"--network-configuration={place / 'network.yml'}",
        f"--logging-folder={place / 'log'}",
    ]


def finished(place: Path) -> list[tuple[int, int, int]]:
    """Rank, node and time in ns of all that has ended, by the log."""
    found = []
    for file in (place / "log").glob("log*.log"):
        for rank, time_ns, node in _FINISHED.findall(file.read_text()):
            found.append((int(rank), int(node), int(time_ns)))
    return found


def step_ns(steps: Sequence[Step], ends_ns: Mapping[int, int]) -> float | None:
    """Mean time of a rank's steps after the first; None: it has fewer than two."""
    mark = int(MarkerKind.OPTIMIZER_STEP)
    marks = sorted(one.id for one in steps if one.is_host and one.number("mark", 0) == mark)
    work = [one.id for one in steps if not one.is_host]
    if len(marks) < 2:
        return None
    first, last = (
        max(ends_ns[one] for one in work if one < border) for border in (marks[0], marks[-1])
    )
    return (last - first) / (len(marks) - 1)


def ended_ns(steps: Sequence[Step]) -> dict[int, int]:
    """When each node ended in the run."""
    return {one.id: one.number("start_ns") + one.number("duration_ns") for one in steps}


@dataclass(frozen=True)
class Outcome:
    """What ASTRA-sim made of a folder. Times are of a step of rank 0."""

    nodes: int
    over: int
    ours_ns: float | None
    theirs_ns: float | None
    exit_code: int


def simulated(source: Path, binary: Path, traces: Path, place: Path) -> Outcome:
    """A folder of traces in ASTRA-sim.

    It may crash when it frees its memory at its end, which takes the last lines of its log with it:
    then it runs again.
    """
    folder = read_folder(traces)
    nodes = {(rank, one.id) for rank, steps in enumerate(folder.steps) for one in steps}
    place.mkdir()
    words = [str(binary), *described(source, folder, place)]
    for _ in range(TRIES):
        shutil.rmtree(place / "log", ignore_errors=True)
        run = subprocess.run(words, timeout=LIMIT_S, stdout=subprocess.DEVNULL, check=False)
        code, done = run.returncode, finished(place)
        over = nodes - {(rank, node) for rank, node, _ in done}
        if not over or code >= 0:
            break
    first = folder.steps[0]
    ends_ns = {node: time_ns for rank, node, time_ns in done if rank == 0}
    theirs_ns = None if over else step_ns(first, ends_ns)
    return Outcome(len(nodes), len(over), step_ns(first, ended_ns(first)), theirs_ns, code)


def main() -> int:
    """Exit code 1 if a node is left over."""
    options = parser(__doc__)
    options.add_argument("--source", type=Path, help="a checkout with its submodules")
    options.add_argument("--cmake", action="append", default=[], help="of the build")
    options.add_argument("--programs", nargs="*", default=list(KINDS), choices=list(KINDS))
    told = options.parse_args()
    source, binary = built(told.source, told.cmake)
    columns = ["program", "ranks", "nodes", "over", "step ms", "ASTRA-sim ms", "change, %"]
    results = Results("Chakra traces in ASTRA-sim", columns)
    with tempfile.TemporaryDirectory() as scratch:
        runs = Runs(Path(scratch))
        for name in told.programs:
            path = runs.run(KINDS[name].ranks, KINDS[name].words)
            traces = path.with_suffix("")
            assert phantora(["report", str(path), "--chakra", str(traces)]) == 0
            place = traces.with_name(f"{traces.name}-astra")
            found = simulated(source, binary, traces, place)
            in_ms = [None if one is None else one / 1e6 for one in (found.ours_ns, found.theirs_ns)]
            change = None
            if found.ours_ns is not None and found.theirs_ns is not None:
                change = 100 * (found.theirs_ns / found.ours_ns - 1)
            results.add(name, KINDS[name].ranks, found.nodes, found.over, *in_ms, change)
            if found.exit_code:
                results.notes.append(f"{name}: ASTRA-sim ended with exit code {found.exit_code}.")
    results.show(told.json)
    return 1 if any(one["over"] for one in results.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
