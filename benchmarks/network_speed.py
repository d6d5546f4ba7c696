"""Our network model and SimGrid on the same flows, in one run.

    python benchmarks/network_speed.py [--work ring all_to_all mix] [--ends 64 512 4096] [--json]

Work: a ring all-reduce, an all-to-all, and 500 collectives of subgroups that start within 20 ms or
more. End points are GPUs of h100 nodes under leaves and spines; the collective library costs
nothing. "Flows" is the simulation itself; "plans" is what comes before and is kept: topology,
routes, choice of algorithms. SimGrid is given the finished flows, without the caps that hold a
collective's flows together, which spares it work; its "platform" is what it builds from them. Work
of more than 300,000 flows is not given to it. All are CPU seconds of one thread, the ratio is that
of the simulations themselves, and "of all" that of SimGrid's to all that we do.
Without SimGrid (nox -s simgrid says how to install it) only our times are printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import resource
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import simpy

sys.path.append(str(Path(__file__).parent.parent / "tests" / "simgrid"))

from simgrid_flows import is_installed, solve

from sim_server.cluster import load_cluster
from sim_server.collectives import Communication
from sim_server.network import Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

Start = tuple[int, Operation]

_MOST_FLOWS = 300_000
_COLLECTIVES = 500
# The mix starts within this time; on few end points it is longer, or most of it would wait.
_WINDOW_NS = 20_000_000
_ENDS_NS = 10_000_000_000
_NODE_GPUS = 8
_UINT8 = 1


def ring(ends: int) -> list[Start]:
    """One all-reduce of all end points."""
    return [(0, Operation(NcclOpKind.ALL_REDUCE, 1 << 26, _UINT8, tuple(range(ends))))]


def all_to_all(ends: int) -> list[Start]:
    """One all-to-all of all end points."""
    return [(0, Operation(NcclOpKind.ALL_TO_ALL, 1 << 16, _UINT8, tuple(range(ends))))]


def mix(ends: int) -> list[Start]:
    """Collectives of 2 to 64 ranks at equal distances, as parallel training has them."""
    chance = random.Random(ends)
    starts = []
    for _ in range(_COLLECTIVES):
        size = chance.choice([2, 4, 8, 16, 32, 64])
        distance = chance.choice([one for one in (1, 8, 64) if one * size <= ends])
        first = chance.randrange(ends - (size - 1) * distance)
        kind = chance.choice([NcclOpKind.ALL_REDUCE, NcclOpKind.ALL_GATHER, NcclOpKind.ALL_TO_ALL])
        members = tuple(range(first, first + size * distance, distance))
        count = chance.randrange(1 << 18, 1 << 23) // (1 if kind is NcclOpKind.ALL_REDUCE else size)
        starts.append(
            (
                chance.randrange(max(_WINDOW_NS, _ENDS_NS // ends)),
                Operation(kind, count, _UINT8, members),
            )
        )
    return starts


_WORK = {"ring": ring, "all_to_all": all_to_all, "mix": mix}


def make_communication(env: simpy.Environment, ends: int) -> Communication:
    """The end points, with a library that costs nothing and links without latency."""
    cluster = dataclasses.replace(load_cluster("h100"), collectives="ideal")
    cluster = dataclasses.replace(
        cluster,
        nvlink=dataclasses.replace(cluster.nvlink, latency_ns=0),
        nic=dataclasses.replace(cluster.nic, latency_ns=0, pcie_latency_ns=0),
        fabric=dataclasses.replace(cluster.fabric, latency_ns=0),
    )
    return Communication(env, cluster, ends // _NODE_GPUS, _NODE_GPUS)


def run_ours(ends: int, starts: Sequence[Start]) -> dict[str, float]:
    """CPU seconds of plans and flows, and the virtual end in seconds."""
    start_s = time.process_time()
    env = simpy.Environment()
    communication = make_communication(env, ends)
    for _, operation in starts:
        communication.plan(operation)
    planned_s = time.process_time()

    def carry_out(start_ns: int, operation: Operation) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(start_ns)
        yield communication.start(operation)

    for start in starts:
        env.process(carry_out(*start))
    env.run()
    flows_s = time.process_time() - planned_s
    return {"plans_s": planned_s - start_s, "flows_s": flows_s, "end_s": env.now / 1e9}


def as_problem(ends: int, starts: Sequence[Start]) -> dict[str, Any]:
    """The same flows for SimGrid, without caps."""
    communication = make_communication(simpy.Environment(), ends)
    cluster = load_cluster("h100")
    topology = Topology(cluster, ends // _NODE_GPUS)
    flows = []
    for start_ns, operation in starts:
        plan = communication.plan(operation)
        by_demand = [[demand.path] for demand in plan.demands]
        if plan.fold is not None:
            by_demand = plan.fold.paths()
        flat = zip(plan.demands, by_demand, strict=True)
        for demand, path in ((demand, path) for demand, paths in flat for path in paths):
            first, last = topology.links[path[0]].source, topology.links[path[-1]].target
            flows.append(
                {
                    "path": path,
                    "size_bytes": demand.size_bytes,
                    "cap": None,
                    "start_s": start_ns / 1e9,
                    "ends": (first, last),
                }
            )
    return {
        "capacities": [link.capacity_bytes_per_s for link in topology.links],
        "flows": flows,
    }


def flow_count(starts: Sequence[Start]) -> int:
    """Flows without folding: n(n-1) of an exchange, at most 2n of a ring."""
    return sum(
        len(one.members) * (len(one.members) - 1 if one.kind is NcclOpKind.ALL_TO_ALL else 2)
        for _, one in starts
    )


def main() -> int:
    """Print the table."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", choices=_WORK, nargs="+", default=list(_WORK))
    parser.add_argument("--ends", type=int, nargs="+", default=[64, 512, 4096])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for work in arguments.work:
        for ends in arguments.ends:
            starts = _WORK[work](ends)
            flows = flow_count(starts)
            row = {"work": work, "ends": ends, "flows": flows, **run_ours(ends, starts)}
            if is_installed() and flows <= _MOST_FLOWS:
                results = solve([as_problem(ends, starts)])
                row |= {f"simgrid_{key}": results[key] for key in ("setup_s", "run_s")}
                row["simgrid_end_s"] = max(results["ends_s"][0])
                row["ratio"] = results["run_s"] / row["flows_s"]
                row["ratio_of_all"] = results["run_s"] / (row["flows_s"] + row["plans_s"])
            rows.append(row)
            if not arguments.json:
                print_row(row)
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"our peak memory {peak_mib:.0f} MiB")
    return 0


def print_row(row: dict[str, Any]) -> None:
    """One line, when it is known."""
    line = (
        f"{row['work']:10} {row['ends']:6,} ends {row['flows']:11,} flows   ours: flows "
        f"{row['flows_s']:7.3f} s, plans {row['plans_s']:7.3f} s"
    )
    if "ratio" in row:
        line += (
            f"   SimGrid {row['simgrid_run_s']:7.3f} s, platform {row['simgrid_setup_s']:7.3f} s"
            f"   ratio {row['ratio']:6.1f}, of all {row['ratio_of_all']:6.1f}"
        )
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
