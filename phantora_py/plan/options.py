"""The ways to shard a table over ranks, with TorchRec's names.

A table is cut into columns, one at least, and each column is at a place: a rank, a node or all
ranks, over which its rows are split. The types differ in how many columns and which places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from phantora_py.plan.host_memory import HOST_KERNELS
from phantora_py.plan.tables import Table
from sim_server.cluster import Layout
from sim_server.errors import UsageError

# Copies of larger tables on every rank are not considered (assumed).
_MOST_COPIED_BYTES = 256 * 2**20

Place = tuple[int, ...]


@dataclass(frozen=True)
class Option:
    """One way. Two with the same shards are equal, whatever TorchRec calls them."""

    kind: str = field(compare=False)
    ranks: tuple[int, ...]
    """Of each shard: column by column, and of a column row by row."""
    split: int = 1
    """Ranks that share a column's rows."""
    copied: bool = False
    """Each of the ranks has the whole table."""
    compute_kernel: str = "fused"
    """TorchRec's name: it says what memory the table is in."""

    @property
    def columns(self) -> list[Place]:
        """Of each column the ranks that share its rows."""
        starts = range(0, len(self.ranks), self.split)
        return [self.ranks[start : start + self.split] for start in starts]

    @property
    def text(self) -> str:
        """As a person reads it."""
        if self.kind in ("row_wise", "data_parallel"):
            text = self.kind
        else:
            text = f"{self.kind} {','.join(map(str, self.ranks))}"
        return f"{text} {self.compute_kernel}" if self.in_host_memory else text

    @property
    def in_host_memory(self) -> bool:
        """Weights are on the host, in a cache or not."""
        return self.compute_kernel in HOST_KERNELS


def option(
    kind: str, ranks: Sequence[int], gpus_per_node: int, compute_kernel: str | None = None
) -> Option:
    """That of a type of TorchRec's, whose shards are on these ranks."""
    split = {"row_wise": len(ranks), "table_row_wise": len(ranks), "grid_shard": gpus_per_node}
    copied = kind == "data_parallel"
    kernel = compute_kernel or ("dense" if copied else "fused")
    return Option(kind, tuple(ranks), split.get(kind, 1), copied, kernel)


def options_of(table: Table, layout: Layout) -> list[Option]:
    """Those that a table allows, each once: within one node, some types are others.

    Raises: UsageError if there is none.
    """
    found = {
        option(kind, ranks, layout.gpus_per_node, kernel): None
        for kernel in table.compute_kernels
        for kind in table.sharding_types
        if (kernel == "dense") == (kind == "data_parallel")
        for ranks in _ranks(kind, table, layout)
    }
    if not found:
        raise UsageError(
            f"table {table.name} cannot be sharded as its constraints say "
            f"({', '.join(table.sharding_types)}) over {layout.ranks} ranks, "
            f"{layout.gpus_per_node} on a node, by {', '.join(table.compute_kernels)}"
        )
    return list(found)


def _ranks(kind: str, table: Table, layout: Layout) -> Iterator[Place]:
    """The ranks of each option of a type."""
    everyone = tuple(range(layout.ranks))
    ranks = [(rank,) for rank in everyone]
    size = layout.gpus_per_node
    nodes = [everyone[first : first + size] for first in everyone[::size]]
    if kind == "data_parallel":
        small = table.weight_bytes <= _MOST_COPIED_BYTES
        if small or table.sharding_types == ("data_parallel",):
            yield everyone
    elif kind == "table_wise":
        yield from ranks
    elif kind == "row_wise":
        yield from _split(table, [everyone])
    elif kind == "table_row_wise":
        yield from _split(table, nodes)
    elif kind == "column_wise":
        yield from _cut(table, ranks)
    elif kind == "table_column_wise":
        for node in nodes:
            yield from _cut(table, [(rank,) for rank in node])
    else:
        yield from _cut(table, list(_split(table, nodes)))


def _split(table: Table, places: Sequence[Place]) -> Iterator[Place]:
    """Places among whose ranks the rows can be split."""
    return (place for place in places if table.rows >= len(place) > 1)


def _cut(table: Table, places: Sequence[Place]) -> Iterator[Place]:
    """Equal columns, a multiple of four elements each, at neighbouring places."""
    count = len(places)
    for parts in range(2, count + 1):
        width = table.dim // parts
        if count % parts or table.dim % parts or width % 4 or width < table.min_partition:
            continue
        for first in range(count if parts < count else 1):
            at = [places[(first + n) % count] for n in range(parts)]
            yield tuple(rank for place in at for rank in place)
