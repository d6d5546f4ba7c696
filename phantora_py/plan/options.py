"""The ways to shard a table over ranks, with TorchRec's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from phantora_py.plan.tables import Table
from sim_server.errors import UsageError

# Copies of larger tables on every rank are not considered (assumed).
_MOST_COPIED_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Option:
    """One way: its type, and the rank of each shard."""

    kind: str
    ranks: tuple[int, ...]

    @property
    def text(self) -> str:
        """As a person reads it."""
        if self.kind in ("row_wise", "data_parallel"):
            return self.kind
        return f"{self.kind} {','.join(map(str, self.ranks))}"


def options_of(table: Table, ranks: int) -> list[Option]:
    """Those that a table allows. Raises: UsageError if there is none."""
    found = [one for kind in table.sharding_types for one in _MAKERS[kind](table, ranks)]
    if not found:
        raise UsageError(
            f"table {table.name} cannot be sharded as its constraints say "
            f"({', '.join(table.sharding_types)}) over {ranks} ranks"
        )
    return found


def _table_wise(_table: Table, ranks: int) -> Iterator[Option]:
    for rank in range(ranks):
        yield Option("table_wise", (rank,))


def _row_wise(table: Table, ranks: int) -> Iterator[Option]:
    if table.rows >= ranks > 1:
        yield Option("row_wise", tuple(range(ranks)))


def _column_wise(table: Table, ranks: int) -> Iterator[Option]:
    """Equal parts, a multiple of four elements each, on neighbours."""
    for parts in range(2, ranks + 1):
        width = table.dim // parts
        if ranks % parts or table.dim % parts or width % 4 or width < table.min_partition:
            continue
        for first in range(ranks if parts < ranks else 1):
            yield Option("column_wise", tuple((first + n) % ranks for n in range(parts)))


def _data_parallel(table: Table, ranks: int) -> Iterator[Option]:
    if table.weight_bytes <= _MOST_COPIED_BYTES or table.sharding_types == ("data_parallel",):
        yield Option("data_parallel", tuple(range(ranks)))


_MAKERS = {
    "table_wise": _table_wise,
    "row_wise": _row_wise,
    "column_wise": _column_wise,
    "data_parallel": _data_parallel,
}
