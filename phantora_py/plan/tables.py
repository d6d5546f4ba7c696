"""The tables of a model, from a JSON file (docs/recommendation.md), checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from phantora_py.plan.host_memory import HOST_KERNELS
from sim_server.errors import UsageError
from sim_server.files.json_file import read_json
from sim_server.kernels.lookup import STATES
from sim_server.lookups import Lookups, read_lookups
from sim_server.lookups.pooling import Pooling, read_pooling
from sim_server.lookups.read import number

SHARDING_TYPES = (
    *("table_wise", "row_wise", "column_wise", "data_parallel"),
    *("table_row_wise", "table_column_wise", "grid_shard"),
)
"""TorchRec's names."""
COMPUTE_KERNELS = ("fused", "dense", *HOST_KERNELS)
"""TorchRec's names: `dense` of copies, the others of all else."""
_TYPE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
_FIELDS = {
    *("name", "rows", "dim", "pooling", "type", "optimizer", "features", "lookups"),
    "constraints",
}
# As TorchRec's ParameterConstraints has them.
_CONSTRAINTS = {
    *("sharding_types", "min_partition", "pooling_factors", "compute_kernels", "cache_params")
}
_LEAST_PARTITION = 32
# TorchRec's, where nothing else is said.
_LOAD_FACTOR = 0.2
# More than any list of features; a mistyped file has them (assumed).
_MOST_TABLES = 10_000


@dataclass(frozen=True, eq=False)
class Table:
    """One embedding table. `features`: columns of the input that look rows up in it."""

    name: str
    rows: int
    dim: int
    pooling: Pooling
    lookups: Lookups
    element_bytes: int
    optimizer: str
    features: tuple[str, ...]
    sharding_types: tuple[str, ...]
    min_partition: int
    compute_kernels: tuple[str, ...]
    cache_load_factor: float
    """The share of its rows that a cache in GPU memory has places for."""
    spec: Mapping[str, Any]
    """As the file has it."""

    @cached_property
    def lookups_per_sample(self) -> float:
        """Of all features."""
        return self.pooling.mean * len(self.features)

    @property
    def weight_bytes(self) -> int:
        """Of all weights."""
        return self.rows * self.dim * self.element_bytes


def read_tables(path: Path, option: str = "--tables") -> list[Table]:
    """The tables of a file that `option` names. Raises: UsageError."""
    content = read_json(path, option)
    listed = content.get("tables") if isinstance(content, dict) else content
    if not isinstance(listed, list) or not listed:
        raise UsageError(f'{option} {path} must hold {{"tables": [...]}} with at least one table')
    if len(listed) > _MOST_TABLES:
        raise UsageError(f"{option} {path} has {len(listed)} tables; {_MOST_TABLES} are the most")
    tables = [read_table(one, f"{path}: table {place}") for place, one in enumerate(listed)]
    names = [table.name for table in tables]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{option} {path} has two tables named {twice[0]!r}")
    return tables


def read_table(spec: object, where: str) -> Table:
    """One table. Raises: UsageError that names it."""
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        raise UsageError(f"{where} must be an object with a name")
    where = f"{where} ({spec['name']})"
    if unknown := sorted(set(spec) - _FIELDS):
        raise UsageError(f"{where} has an unknown field {unknown[0]!r}; {sorted(_FIELDS)}")
    try:
        return _checked(spec, where)
    except UsageError as error:
        text = str(error)
        raise UsageError(text if text.startswith(where) else f"{where}: {text}") from None


def _checked(spec: dict[str, Any], where: str) -> Table:
    constraints = spec.get("constraints") or {}
    if not isinstance(constraints, dict):
        raise UsageError(f"constraints must be an object, not {constraints!r}")
    if unknown := sorted(set(constraints) - _CONSTRAINTS):
        raise UsageError(f"constraints have an unknown field {unknown[0]!r}")
    rows, dim = _whole(spec, "rows"), _whole(spec, "dim")
    optimizer = spec.get("optimizer", "rowwise_adagrad")
    if optimizer not in list(STATES):
        raise UsageError(f"there is no optimizer {optimizer!r}; {', '.join(STATES)}")
    kind = spec.get("type", "fp32")
    if kind not in list(_TYPE_BYTES):
        raise UsageError(f"there is no type {kind!r}; {', '.join(_TYPE_BYTES)}")
    if dim % 4:
        raise UsageError(f"dim is {dim}; FBGEMM's tables have a multiple of 4")
    features = spec.get("features", [spec["name"]])
    if not isinstance(features, list) or not features or not all(map(_is_text, features)):
        raise UsageError(f"features must be a list of names, not {features!r}")
    if len(set(features)) < len(features):
        raise UsageError(f"features must be different, not {features!r}")
    return Table(
        name=spec["name"],
        rows=rows,
        dim=dim,
        pooling=read_pooling(_pooling(spec, constraints, len(features))),
        lookups=read_lookups(spec.get("lookups"), rows, where),
        element_bytes=_TYPE_BYTES[kind],
        optimizer=optimizer,
        features=tuple(features),
        sharding_types=_sharding_types(constraints),
        min_partition=_whole(constraints, "min_partition", _LEAST_PARTITION),
        compute_kernels=_compute_kernels(constraints),
        cache_load_factor=_load_factor(constraints),
        spec=spec,
    )


def _pooling(
    spec: dict[str, Any], constraints: dict[str, Any], features: int
) -> float | dict[str, Any]:
    """The table's own, or the mean of TorchRec's constraints."""
    if "pooling" in spec:
        pooling: float | dict[str, Any] = spec["pooling"]
        return pooling
    factors = constraints.get("pooling_factors")
    if not isinstance(factors, list) or len(factors) != features:
        raise UsageError(
            "pooling is missing: the mean lookups of a sample, or constraints.pooling_factors "
            "with one for each feature"
        )
    return sum(number({"pooling_factors": one}, "pooling_factors", 0) for one in factors) / features


def _sharding_types(constraints: dict[str, Any]) -> tuple[str, ...]:
    types = constraints.get("sharding_types")
    if types is None:
        return SHARDING_TYPES
    if not isinstance(types, list) or not types:
        raise UsageError(f"constraints.sharding_types must be a list, not {types!r}")
    for one in types:
        if one not in SHARDING_TYPES:
            raise UsageError(f"there is no sharding type {one!r}; {', '.join(SHARDING_TYPES)}")
    return tuple(types)


def _compute_kernels(constraints: dict[str, Any]) -> tuple[str, ...]:
    """Host memory only for those that ask for it."""
    kernels = constraints.get("compute_kernels")
    if kernels is None:
        return ("fused", "dense")
    if not isinstance(kernels, list) or not kernels:
        raise UsageError(f"constraints.compute_kernels must be a list, not {kernels!r}")
    for one in kernels:
        if one not in list(COMPUTE_KERNELS):
            raise UsageError(f"no compute kernel {one!r} is modelled; {', '.join(COMPUTE_KERNELS)}")
    return tuple(one for one in COMPUTE_KERNELS if one in kernels)


def _load_factor(constraints: dict[str, Any]) -> float:
    cache = constraints.get("cache_params")
    if cache is None:
        return _LOAD_FACTOR
    if not isinstance(cache, dict) or set(cache) != {"load_factor"}:
        raise UsageError(f"constraints.cache_params must have a load_factor alone, not {cache!r}")
    factor = number(cache, "load_factor", 0)
    if not 0 < factor <= 1:
        raise UsageError(f"cache_params.load_factor must be above 0 and at most 1, not {factor:g}")
    return factor


def _whole(spec: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = number(spec, key, 1, default)
    if value % 1:
        raise UsageError(f"{key} must be a whole number, not {value!r}")
    return int(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
