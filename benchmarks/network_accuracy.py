"""Compare the communication model with published results of nccl-tests.

    python benchmarks/network_accuracy.py RESULTS.csv [--rows] [--only TEXT]

The CSV has one row per measurement. Columns, by either name:
    device | gpu            name of the GPU; A100, H100, H200 and B200 in it choose the cluster
    op_name | collective    all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce
    num_gpus                ranks
    size_bytes              as nccl-tests prints it
    time_us | time_us_oop   out of place
Optional: nodes (1 when absent), gpus_per_node, nccl_dtype | dtype (half when absent), system |
interconnect (only told apart). Rows that repeat a measurement are replaced by their median.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import simpy

from sim_server.cluster import load_cluster
from sim_server.collectives import Communication
from sim_server.operations import DATA_TYPE_BYTES, PER_RANK_KINDS, Operation
from sim_server.records import NcclOpKind

_KINDS = {
    "all_reduce": NcclOpKind.ALL_REDUCE,
    "all_gather": NcclOpKind.ALL_GATHER,
    "reduce_scatter": NcclOpKind.REDUCE_SCATTER,
    "alltoall": NcclOpKind.ALL_TO_ALL,
    "broadcast": NcclOpKind.BROADCAST,
    "reduce": NcclOpKind.REDUCE,
}
_DTYPES = {"int8": 0, "half": 6, "float": 7, "double": 8, "bfloat16": 9}


class Case(NamedTuple):
    """What was measured."""

    system: str
    cluster: str
    kind: NcclOpKind
    nodes: int
    gpus_per_node: int
    dtype: int
    size_bytes: int


def read_cases(path: str, only: str) -> dict[Case, float]:
    """Median measured time in us of every case of a known cluster."""
    times_us: dict[Case, list[float]] = defaultdict(list)
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            case = _case(row)
            time_us = float(_first(row, "time_us", "time_us_oop") or 0)
            if case is not None and time_us > 0 and only.lower() in str(case).lower():
                times_us[case].append(time_us)
    return {case: statistics.median(times) for case, times in times_us.items()}


def _case(row: Mapping[str, str]) -> Case | None:
    gpu = _first(row, "device", "gpu").lower()
    cluster = next((name for name in ("a100", "h100", "h200", "b200") if name in gpu), None)
    kind = _KINDS.get(_first(row, "op_name", "collective"))
    # A name such as GB200 is another system.
    if cluster is None or kind is None or f"g{cluster}" in gpu or not row["num_gpus"]:
        return None
    nodes = int(row.get("nodes") or 1)
    gpus_per_node = int(row.get("gpus_per_node") or int(row["num_gpus"]) // nodes)
    dtype = _DTYPES.get(_first(row, "nccl_dtype", "dtype") or "half")
    size_bytes = int(float(row["size_bytes"] or 0))
    if dtype is None or size_bytes == 0 or nodes * gpus_per_node < 2:
        return None
    system = _first(row, "system", "interconnect")
    return Case(system, cluster, kind, nodes, gpus_per_node, dtype, size_bytes)


def _first(row: Mapping[str, str], *names: str) -> str:
    return next((row[name] for name in names if row.get(name)), "")


def simulate_us(case: Case) -> float:
    """Time of the operation on an idle cluster, in us."""
    env = simpy.Environment()
    communication = Communication(env, load_cluster(case.cluster), case.nodes, case.gpus_per_node)
    ranks = case.nodes * case.gpus_per_node
    parts = ranks if case.kind in PER_RANK_KINDS else 1
    count = max(1, case.size_bytes // DATA_TYPE_BYTES[case.dtype] // parts)
    operation = Operation(case.kind, count, case.dtype, tuple(range(ranks)))
    env.run(communication.start(operation))
    return float(env.now) / 1e3


def table(cases: Mapping[Case, float], rows: bool) -> Iterator[str]:
    """Lines of the report: signed and absolute relative errors by group and range of sizes."""
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for case, measured_us in sorted(cases.items()):
        simulated_us = simulate_us(case)
        error = math.log(simulated_us / measured_us)
        span = next(
            name
            for limit, name in ((2**16, "to 64 KB"), (2**25, "to 32 MB"), (math.inf, "above"))
            if case.size_bytes <= limit
        )
        place = f"{case.nodes} x {case.gpus_per_node}"
        kind = case.kind.name.lower()
        groups[case.system[:28], case.cluster, kind, place, span].append(error)
        if rows:
            yield (
                f"{case.system[:28]:28}  {kind:14} {place:7} dtype {case.dtype} "
                f"{case.size_bytes:12,} B  measured {measured_us:10.1f} us  "
                f"simulated {simulated_us:10.1f} us  {math.expm1(error):+7.1%}"
            )
    yield (
        f"{'system':28}  {'cluster':7} {'operation':14} {'nodes':7} {'sizes':9} "
        f"{'cases':>5} {'median':>8} {'median |e|':>10} {'worst |e|':>10}"
    )
    for (system, cluster, kind, place, span), errors in groups.items():
        absolute = [abs(math.expm1(error)) for error in errors]
        yield (
            f"{system:28}  {cluster:7} {kind:14} {place:7} {span:9} {len(errors):5} "
            f"{math.expm1(statistics.median(errors)):+8.1%} {statistics.median(absolute):10.1%} "
            f"{max(absolute):10.1%}"
        )


def main() -> int:
    """Print the table; exit code 2 for a wrong command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", help="CSV file of nccl-tests results")
    parser.add_argument("--rows", action="store_true", help="also print every case")
    parser.add_argument("--only", default="", help="only cases whose description contains this")
    arguments = parser.parse_args()
    cases = read_cases(arguments.results, arguments.only)
    if not cases:
        print("no row of the file is of a known cluster and operation", file=sys.stderr)
        return 2
    for line in table(cases, arguments.rows):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
