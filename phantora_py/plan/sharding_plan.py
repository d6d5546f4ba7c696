"""A placement as TorchRec's ShardingPlan: its fields, as JSON, by module and table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phantora_py.plan.host_memory import HOST_KERNELS, UVM_CACHING
from phantora_py.plan.options import Option, option
from phantora_py.plan.tables import COMPUTE_KERNELS, SHARDING_TYPES, Table
from sim_server.errors import UsageError
from sim_server.files.schema import shown

FORMAT = "phantora sharding plan"
VERSION = 1


def to_json(
    tables: Sequence[Table], options: Sequence[Option], gpus_per_node: int, module: str
) -> dict[str, Any]:
    """The plan of one module of embedding bags."""
    plan = {
        table.name: _parameter(table, option, gpus_per_node)
        for table, option in zip(tables, options, strict=True)
    }
    return {"format": FORMAT, "version": VERSION, "plan": {module: plan}}


def _parameter(table: Table, option: Option, gpus_per_node: int) -> dict[str, Any]:
    """The fields of a ParameterSharding."""
    if option.copied:
        return {
            "sharding_type": option.kind,
            "compute_kernel": option.compute_kernel,
            "ranks": list(option.ranks),
            "sharding_spec": None,
        }
    cached = option.compute_kernel == UVM_CACHING
    return {
        "sharding_type": option.kind,
        "compute_kernel": option.compute_kernel,
        **({"cache_params": {"load_factor": table.cache_load_factor}} if cached else {}),
        "ranks": list(option.ranks),
        "sharding_spec": {
            "shards": [
                {
                    "shard_offsets": list(offsets),
                    "shard_sizes": list(sizes),
                    "placement": f"rank:{rank}/cuda:{rank % gpus_per_node}",
                }
                for rank, offsets, sizes in _shards(table, option)
            ]
        },
    }


def _shards(table: Table, option: Option) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
    """Rank, first row and column, rows and columns; the last of a table's rows has the rest."""
    width = table.dim // len(option.columns)
    block = -(-table.rows // option.split)
    firsts = [min(table.rows, place * block) for place in range(option.split + 1)]
    return [
        (rank, (firsts[place], column * width), (firsts[place + 1] - firsts[place], width))
        for column, ranks in enumerate(option.columns)
        for place, rank in enumerate(ranks)
    ]


def _areas_of(table: Table, option: Option) -> list[tuple[list[int], list[int]]]:
    return [(list(offsets), list(sizes)) for _, offsets, sizes in _shards(table, option)]


def _areas(spec: Any) -> list[tuple[Any, Any]] | None:
    """Offsets and sizes of a sharding spec's shards; None of what is no such spec."""
    try:
        return [(one["shard_offsets"], one["shard_sizes"]) for one in spec["shards"]]
    except (KeyError, TypeError):
        return None


def from_json(
    content: Any, tables: Sequence[Table], gpus_per_node: int, where: str
) -> list[Option]:
    """The placement of these tables that a plan's JSON holds. Raises: UsageError."""
    if not isinstance(content, dict) or not isinstance(content.get("plan"), dict):
        raise UsageError(f"{where} is no sharding plan: it has no plan by module")
    if content.get("format", FORMAT) != FORMAT:
        raise UsageError(f"{where} is no {FORMAT}: its format is {shown(content['format'])}")
    if content.get("version") != VERSION:
        raise UsageError(
            f"{where} is a sharding plan of version {content.get('version')!r}; this phantora "
            f"reads version {VERSION}"
        )
    found: dict[str, Any] = {}
    for name, module in content["plan"].items():
        if not isinstance(module, dict):
            raise UsageError(f"{where}: module {name} must be an object with its tables")
        if twice := sorted(set(found) & set(module)):
            raise UsageError(f"{where} has table {twice[0]} in two modules; one is planned")
        found |= module
    missing = [table.name for table in tables if table.name not in found]
    if missing:
        raise UsageError(f"{where} says nothing of table {missing[0]}")
    if others := sorted(set(found) - {table.name for table in tables}):
        raise UsageError(
            f"{where} places table {others[0]}, which --tables does not have: its time would be "
            "left out"
        )
    return [
        _option(found[table.name], table, gpus_per_node, f"{where}: table {table.name}")
        for table in tables
    ]


def _option(parameter: Any, table: Table, gpus_per_node: int, where: str) -> Option:
    ranks = parameter.get("ranks") if isinstance(parameter, dict) else None
    kind = parameter.get("sharding_type") if isinstance(parameter, dict) else None
    if not isinstance(ranks, list) or not ranks or not isinstance(kind, str):
        raise UsageError(f"{where} needs a sharding_type and ranks")
    if not all(type(rank) is int and rank >= 0 for rank in ranks):
        raise UsageError(f"{where} needs ranks from 0, not {ranks}")
    if kind not in SHARDING_TYPES:
        raise UsageError(f"{where} has no sharding type {kind!r}; {', '.join(SHARDING_TYPES)}")
    placed = option(kind, ranks, gpus_per_node, _kernel(parameter, kind, table, where))
    spec = parameter.get("sharding_spec")
    # Without one nothing says what the plan's table was like.
    if spec is not None and _areas(spec) != _areas_of(table, placed):
        raise UsageError(
            f"{where} has other shards than {placed.text} of {table.rows} rows of {table.dim} "
            "has: the plan is of another table, or divides it unevenly"
        )
    return placed


def _kernel(parameter: Mapping[str, Any], kind: str, table: Table, where: str) -> str | None:
    """None where the plan does not say it."""
    kernel = parameter.get("compute_kernel")
    if kernel is None:
        return None
    if kernel not in list(COMPUTE_KERNELS) or (kernel == "dense") != (kind == "data_parallel"):
        raise UsageError(
            f"{where} is {kind} by {shown(kernel)}, which is not modelled: fused is, or "
            f"{' or '.join(HOST_KERNELS)}, and dense of data_parallel"
        )
    cache = parameter.get("cache_params")
    wanted = {"load_factor": table.cache_load_factor}
    if kernel == UVM_CACHING and cache not in (None, wanted):
        raise UsageError(
            f"{where} has cache_params {shown(cache)}, its constraints in --tables have {wanted}"
        )
    return str(kernel)
