"""`phantora bench`: nccl-tests on a simulated cluster, without running ranks."""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from phantora_py.bench.log import Log, read_log
from phantora_py.bench.model import Bench, Row
from phantora_py.bench.operations import DATA_TYPES, REDUCTIONS, BenchOperation, find_operation
from phantora_py.bench.quantities import parse_subset, sizes_bytes
from phantora_py.bench.table import (
    Compared,
    average_line,
    compared_lines,
    header_lines,
    rank_lines,
    result_line,
)
from phantora_py.cli.messages import error_console
from phantora_py.text.wrapping import print_lines
from sim_server.cluster import Cluster, Layout, load_cluster, place
from sim_server.collectives.environment import nccl_variables, not_modelled
from sim_server.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora bench`; sizes and types have nccl-tests' letters."""
    parser.add_argument(
        "operation", metavar="OPERATION", help="the collective: all_reduce, alltoall, ..."
    )
    cluster = parser.add_argument_group("the simulated cluster")
    cluster.add_argument("--cluster", default="h100", metavar="NAME|FILE", help="default: h100")
    cluster.add_argument("--ranks", type=int, metavar="N", help="number of ranks")
    cluster.add_argument("--nodes", type=int, metavar="N", help="number of nodes to use")
    cluster.add_argument(
        "--gpus-per-node", type=int, metavar="N", help="number of GPUs to use on each node"
    )
    cluster.add_argument(
        "--subset",
        action="append",
        metavar="RANKS",
        help="ranks of one communicator, e.g. 0-7, 0,8 or 0-63:8; may be repeated: the "
        "communicators run at the same time; default: all ranks",
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "-b", "--minbytes", default="8", metavar="SIZE", help="smallest size; default: 8"
    )
    what.add_argument(
        "-e", "--maxbytes", default="4G", metavar="SIZE", help="largest size; default: 4G"
    )
    what.add_argument(
        "-f",
        "--stepfactor",
        type=int,
        default=2,
        metavar="N",
        help="each size is N times the one before; default: 2",
    )
    what.add_argument(
        "-d",
        "--datatype",
        default="float",
        choices=DATA_TYPES,
        metavar="TYPE",
        help="type of the elements, as nccl-tests names it; default: float",
    )
    what.add_argument("-o", "--op", default="sum", choices=REDUCTIONS, help="default: sum")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="a real nccl-tests log: take its sizes and types, and print its times beside",
    )
    output.add_argument("--json", action="store_true", help="print a list of rows as JSON")


@dataclass(frozen=True)
class _Job:
    """What was asked for, checked."""

    operation: BenchOperation
    cluster: Cluster
    layout: Layout
    subsets: list[tuple[int, ...]]
    bench: Bench


def run(options: argparse.Namespace) -> int:
    """Measures and prints."""
    operation = find_operation(options.operation)
    variables = nccl_variables(os.environ)
    log = read_log(options.compare) if options.compare else None
    if log is not None:
        _adopt(options, operation, log)
    cluster = load_cluster(options.cluster)
    layout = place(cluster, options.ranks, options.nodes, options.gpus_per_node)
    if layout.ranks < 2:
        raise UsageError("a collective needs at least 2 ranks; give --ranks 2 or more")
    subsets = _subsets(options.subset, layout.ranks)
    bench = Bench(cluster, layout, variables, operation, REDUCTIONS[options.op])
    job = _Job(operation, cluster, layout, subsets, bench)
    if ignored := not_modelled(variables):
        error_console().print(f"note: not modelled: {' '.join(ignored)}")
    if log is None:
        _measure(options, job)
    else:
        _compare(options, job, log)
    return 0


def _adopt(options: argparse.Namespace, operation: BenchOperation, log: Log) -> None:
    """The log's ranks and nodes are the default, and must not contradict what was asked for."""
    if options.subset:
        raise UsageError("--compare measures all ranks of the log; leave --subset out")
    if log.operation is not None and find_operation(log.operation) != operation:
        raise UsageError(f"{options.compare} is a log of {log.operation}, not of {operation.name}")
    if log.ranks is None:
        return
    if options.ranks not in (None, log.ranks):
        raise UsageError(
            f"{options.compare} is a log of {log.ranks} ranks, not of {options.ranks}; leave "
            "--ranks out"
        )
    options.ranks = log.ranks
    if options.nodes is None and options.gpus_per_node is None:
        options.nodes = log.nodes


def _subsets(texts: Sequence[str] | None, ranks: int) -> list[tuple[int, ...]]:
    """The communicators. Raises: UsageError if two of them share a rank."""
    if not texts:
        return [tuple(range(ranks))]
    subsets = [parse_subset(text, ranks) for text in texts]
    taken: dict[int, str] = {}
    for text, subset in zip(texts, subsets, strict=True):
        for rank in subset:
            if rank in taken:
                raise UsageError(
                    f"--subset {taken[rank]} and --subset {text} share rank {rank}; subsets run at "
                    "the same time, and a rank is in one of them"
                )
            taken[rank] = text
    return subsets


def _measure(options: argparse.Namespace, job: _Job) -> None:
    tables: list[list[Row]] = [[] for _ in job.subsets]
    by_size: list[Row] = []
    dtype = DATA_TYPES[options.datatype]
    for size_bytes in sizes_bytes(options.minbytes, options.maxbytes, options.stepfactor):
        for table, row in zip(tables, job.bench.run(job.subsets, size_bytes, dtype), strict=True):
            if row is not None:
                table.append(row)
                by_size.append(row)
    if not by_size:
        raise UsageError(
            f"-e {options.maxbytes} is too small: a rank would get no element; parts are multiples "
            "of 16 bytes"
        )
    if options.json:
        print(json.dumps([_as_dict(job.operation, row) for row in by_size], indent=1))
    else:
        print_lines(map(Text, _lines(options, job, tables)))


def _compare(options: argparse.Namespace, job: _Job, log: Log) -> None:
    pairs = []
    for measured in log.rows:
        if measured.size_bytes == 0 or measured.time_us == 0:
            continue  # the launch of an empty operation
        (row,) = job.bench.run(job.subsets, measured.size_bytes, DATA_TYPES[measured.type])
        if row is not None:
            pairs.append(Compared(measured, row))
    if not pairs:
        raise UsageError(f"{options.compare}: every result is of size 0")
    if options.json:
        rows = [
            _as_dict(job.operation, pair.row)
            | {
                "measured_time_us": pair.measured.time_us,
                "measured_busbw_gb_per_s": pair.measured.busbw_gb_per_s,
                "error": pair.error,
            }
            for pair in pairs
        ]
        print(json.dumps(rows, indent=1))
    else:
        print_lines(map(Text, [_title(job), *compared_lines(pairs)]))


def _as_dict(operation: BenchOperation, row: Row) -> dict[str, Any]:
    """A row of the public JSON (docs/bench.md)."""
    return {
        "op": operation.name,
        "ranks": row.ranks,
        "size_bytes": row.size_bytes,
        "time_us": row.time_us,
        "algbw_gb_per_s": row.algbw_gb_per_s,
        "busbw_gb_per_s": row.busbw_gb_per_s,
        "algorithm": row.algorithm,
        "protocol": row.protocol,
        "channels": row.channels,
    }


def _title(job: _Job) -> str:
    return (
        f"# phantora bench {job.operation.name}: {job.layout.ranks} ranks on {job.layout.nodes} x "
        f"{job.layout.gpus_per_node} GPUs of {job.cluster.name}; times are virtual, out of place"
    )


def _lines(
    options: argparse.Namespace, job: _Job, tables: Sequence[Sequence[Row]]
) -> Iterator[str]:
    yield _title(job)
    if not options.subset:
        yield from rank_lines(job.operation, job.layout)
    for position, table in enumerate(tables):
        if len(tables) > 1:
            others = "at the same time as the others"
            yield f"# communicator of ranks {options.subset[position]}, {others}"
        yield "#"
        yield from header_lines()
        for row in table:
            yield result_line(job.operation, row, options.datatype, options.op)
        if table:
            yield average_line(table)
        else:
            yield f"# every size is too small for {len(job.subsets[position])} ranks"
