"""Tables of `phantora bench`, column by column as nccl-tests prints them.

Source of the widths: src/common.cu and src/util.cu of NVIDIA/nccl-tests. The in-place half and the
count of wrong elements are left out: nothing is computed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from phantora_py.bench.log import Measured
from phantora_py.bench.model import Row
from phantora_py.bench.operations import BenchOperation
from sim_server.cluster import Layout

_COLUMNS = "#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}"
_COMPARED = "{:>12}  {:>8}  {:>9}  {:>9}  {:>8}  {:>8}  {:>9}"
_ROOT = 0
_NO_ROOT = -1


class Compared(NamedTuple):
    """A measured line and the virtual one beside it."""

    measured: Measured
    row: Row

    @property
    def error(self) -> float:
        """Virtual over measured time, less one."""
        return self.row.time_us / self.measured.time_us - 1

    @property
    def two_sided(self) -> float:
        """The larger of the two times over the smaller, less one: twice and half as long are
        equally wrong."""
        ratio = self.row.time_us / self.measured.time_us
        return max(ratio, 1 / ratio) - 1


def rank_lines(operation: BenchOperation, layout: Layout) -> Iterator[str]:
    """What was measured, and on which GPUs, as nccl-tests tells it and `calibrate` reads it."""
    yield f"# Collective test starting: {operation.name}_perf"
    for rank in range(layout.ranks):
        node, device = divmod(rank, layout.gpus_per_node)
        yield f"#  Rank {rank:2} Group  0 Pid      0 on node-{node} device {device:2}"


def header_lines() -> Iterator[str]:
    """The two lines above the results."""
    yield _COLUMNS.format("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
    yield _COLUMNS.format("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)")


def result_line(operation: BenchOperation, row: Row, data_type: str, reduction: str) -> str:
    """One result."""
    redop = reduction if operation.reduces else "none"
    root = _ROOT if operation.rooted else _NO_ROOT
    return (
        f"{row.size_bytes:12d}  {row.count:12d}  {data_type:>8}  {redop:>6}  {root:6d}  "
        f"{_fixed(row.time_us, 7)}  {_fixed(row.algbw_gb_per_s, 6)}  "
        f"{_fixed(row.busbw_gb_per_s, 6)}"
    )


def average_line(rows: Sequence[Row]) -> str:
    """The last line of a table."""
    average = statistics.fmean(row.busbw_gb_per_s for row in rows)
    return f"# Avg bus bandwidth    : {average:g} "


def compared_lines(pairs: Sequence[Compared]) -> Iterator[str]:
    """Measured and virtual side by side, and the error over all of them."""
    yield "# error: virtual time / measured time - 1"
    titles = ("size", "type", "measured", "virtual", "measured", "virtual", "error")
    units = ("(B)", "", "time (us)", "time (us)", "busbw", "busbw", "")
    for words in (titles, units):
        yield "#" + _COMPARED.format(*words)[1:]
    for pair in pairs:
        yield _COMPARED.format(
            pair.measured.size_bytes,
            pair.measured.type,
            _fixed(pair.measured.time_us, 7),
            _fixed(pair.row.time_us, 7),
            _fixed(pair.measured.busbw_gb_per_s, 6),
            _fixed(pair.row.busbw_gb_per_s, 6),
            f"{100 * pair.error:+.1f} %",
        )
    errors = [pair.error for pair in pairs]
    two_sided = [pair.two_sided for pair in pairs]
    yield (
        f"# Median error         : {100 * statistics.median(two_sided):.1f} % either way, "
        f"{100 * statistics.median(errors):+.1f} % with its sign"
    )
    yield (
        f"# Worst errors         : {100 * min(errors):+.1f} % and {100 * max(errors):+.1f} % "
        f"of {len(pairs)} sizes"
    )


def _fixed(value: float, width: int) -> str:
    """Two digits after the point, fewer where they do not fit, as nccl-tests writes numbers."""
    for digits in (2, 1):
        text = f"{value:{width}.{digits}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.0f}"
