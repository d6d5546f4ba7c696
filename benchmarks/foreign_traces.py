"""Traces that others have published, simulated: how long each rank is in NCCL, and its step.

    python benchmarks/foreign_traces.py [FOLDER] [--cluster a100] [--json]

FOLDER is a checkout of https://github.com/facebookresearch/param; without one it is fetched into a
temporary folder. The profiler's traces of a step of DLRM on eight V100s are simulated with the
recorded times of host and kernels, and a network of ours. `alone`: what NCCL would take if no rank
waited for another: each collective as long as on the rank that came last. All execution traces of
the checkout are read, too, and benchmarks built of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measurement import Results, parser

from phantora_py.data import RunData
from phantora_py.replay.build import build, coverage
from phantora_py.runs.simulate_trace import simulate_trace
from phantora_py.traces.kineto import Event, Profile, read_profile
from sim_server.cluster import load_cluster
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN

SOURCE = "https://github.com/facebookresearch/param"
INPUTS = Path("et_replay", "tests", "inputs")
KINETO, OBSERVED = "dlrm_kineto", "dlrm_pytorch_et"


def inputs(options: Any, scratch: Path) -> Path:
    """The folder with the published traces."""
    folder = options.folder or scratch / "param"
    if options.folder is None:
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", SOURCE, folder], check=True)
    return Path(folder, INPUTS)


def unpacked(archive: Path, scratch: Path) -> Path:
    """What a .tar.gz has in it."""
    with tarfile.open(archive) as file:
        file.extractall(scratch, filter="data")
    return scratch / archive.name.removesuffix(".tar.gz")


def work_of(profile: Profile) -> list[Event]:
    """Kernels and copies whose launch is in the profile."""
    calls = {one.told.get("correlation") for one in profile.events if "cuda" in one.kind}
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    found = [one for one in profile.events if one.kind in kinds]
    return [one for one in found if one.told.get("correlation") in calls]


def simulated(folder: Path, scratch: Path, cluster: str) -> Results:
    """Each rank's time in NCCL and its step, in us, against what was recorded."""
    output = scratch / "simulated.phr"
    simulate_trace(folder, load_cluster(cluster), output)
    data = RunData(output)
    columns = ["rank", "NCCL", "recorded", "change, %", "alone, %", "step", "recorded step"]
    results = Results(f"DLRM on 8 V100, simulated on {cluster}", [*columns, "step, %"])
    read = [one for path in folder.iterdir() if (one := read_profile(path)) is not None]
    works = [work_of(one) for one in sorted(read, key=lambda one: one.rank)]
    nccl = [[one for one in work if "nccl" in one.name] for work in works]
    together = zip(*([one.end_ns - one.start_ns for one in own] for own in nccl), strict=True)
    alone_ns = sum(min(row) for row in together)
    for rank, work in enumerate(works):
        spans = data.spans_of(rank)
        spans = spans[spans["kind"] != HOST_WAIT_SPAN]
        inside = spans[spans["kind"] == COMMUNICATION_SPAN]
        found_ns = int((inside["end_ns"] - inside["start_ns"]).sum())
        told_ns = sum(one.end_ns - one.start_ns for one in nccl[rank])
        step_ns = int(spans["end_ns"].max() - spans["start_ns"].min())
        expected_ns = max(one.end_ns for one in work) - min(one.start_ns for one in work)
        percents = [100 * (one - 1) for one in (found_ns / told_ns, alone_ns / told_ns)]
        steps = step_ns / 1000, expected_ns / 1000, 100 * (step_ns / expected_ns - 1)
        results.add(str(rank), found_ns / 1000, told_ns / 1000, *percents, *steps)
    return results


def observed(folder: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Execution traces by name, each in a folder with a file for each rank."""
    for path in sorted(folder.rglob("*et*.gz")):
        if "kineto" in path.name:
            continue
        name = str(path.relative_to(folder))
        place = scratch / name.replace("/", "-")
        place.mkdir()
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as file:
                file.extractall(place, filter="data")
            files = sorted(place.rglob("*.json"))
        else:
            files = [path]
        for rank, one in enumerate(files):
            subprocess.run(f"gzip -cdf {one} > {place}/rank-{rank}.json", shell=True, check=True)
        yield name, place


def built(folder: Path, scratch: Path) -> Results:
    """How many operators of each trace are called, and what becomes a proxy."""
    results = Results("Execution traces", ["file", "ranks", "operators", "proxies"])
    for name, place in observed(folder, scratch):
        benchmark = build(place)
        operators, proxies = coverage(benchmark)
        results.add(name, benchmark.head["ranks"], operators, sum(proxies.values()))
        if proxies:
            results.notes.append(f"{name}: {json.dumps(dict(proxies))}")
    return results


def main() -> int:
    """Fetches, simulates, prints."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?", help="a checkout of param")
    options.add_argument("--cluster", default="a100", help="whose network is simulated")
    told = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = inputs(told, Path(scratch))
        unpacked(folder / f"{KINETO}.tar.gz", Path(scratch))
        simulated(Path(scratch, KINETO), Path(scratch), told.cluster).show(told.json)
        built(folder, Path(scratch)).show(told.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
