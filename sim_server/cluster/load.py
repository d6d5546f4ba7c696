"""Reading of cluster descriptions: the built-in ones and the user's TOML files."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from sim_server.cluster.description import Cluster
from sim_server.cluster.settings import read_record
from sim_server.errors import UsageError
from sim_server.toml_file import read_toml

_BUILTIN = Path(__file__).parent / "builtin"


def builtin_names() -> list[str]:
    """Names of the clusters that come with Phantora."""
    return sorted(path.stem for path in _BUILTIN.glob("*.toml"))


def load_cluster(name_or_path: str) -> Cluster:
    """The built-in cluster of this name, or the one described by the TOML file at this path.

    A file may say `base = "h100"` and then only what differs. Raises: UsageError.
    """
    if name_or_path in builtin_names():
        return _build(
            read_toml(_BUILTIN / f"{name_or_path}.toml", "cluster"), f"cluster {name_or_path}"
        )
    path = Path(name_or_path)
    if not path.is_file():
        near = difflib.get_close_matches(name_or_path, builtin_names(), n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"there is no cluster '{name_or_path}'; {hint}Built in are "
            f"{', '.join(builtin_names())}; anything else is the path of a TOML file"
        )
    table = read_toml(path, "cluster")
    base = table.pop("base", None)
    if base is not None:
        table = _merge(_read_base(base, path), table)
    table.setdefault("name", path.stem)
    return _build(table, f"cluster {path}")


def _read_base(base: object, path: Path) -> dict[str, Any]:
    if base not in builtin_names():
        raise UsageError(
            f"cluster {path}: base = {base!r} is not a built-in cluster; "
            f"use one of {', '.join(builtin_names())}"
        )
    table = read_toml(_BUILTIN / f"{base}.toml", "cluster")
    del table["name"]
    return table


def _merge(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in table.items():
        below = merged.get(key)
        both_tables = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = _merge(below, value) if both_tables else value  # type: ignore[arg-type]
    return merged


def _build(table: dict[str, Any], where: str) -> Cluster:
    cluster = read_record(Cluster, table, "", where)
    nics = cluster.nic.per_node
    if cluster.gpus_per_node % nics != 0:
        raise UsageError(
            f"{where}: nic.per_node = {nics} does not divide gpus_per_node = "
            f"{cluster.gpus_per_node}; every NIC serves the same number of GPUs"
        )
    if cluster.fabric.leaf_downlinks % nics != 0:
        raise UsageError(
            f"{where}: fabric.leaf_downlinks = {cluster.fabric.leaf_downlinks} is not a multiple "
            f"of nic.per_node = {nics}; all NICs of a node are on one leaf"
        )
    return cluster
