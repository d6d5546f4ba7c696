"""Reading of cluster descriptions: the built-in ones and the user's TOML files."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from sim_server.cluster.description import Cluster
from sim_server.cluster.fabric_checks import fabric_fault
from sim_server.cluster.settings import read_record
from sim_server.errors import UsageError
from sim_server.toml_file import read_toml

_BUILTIN = Path(__file__).parent / "builtin"


def builtin_names() -> list[str]:
    """Names of the clusters that come with Phantora."""
    return sorted(path.stem for path in _BUILTIN.glob("*.toml"))


def load_cluster(name_or_path: str) -> Cluster:
    """The built-in cluster of this name, or the one described by the TOML file at this path.

    A file may say `base = "h100"`, or the path of another file from where it lies, and then only
    what differs. Raises: UsageError.
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
    table = _read_with_bases(path, ())
    table.setdefault("name", path.stem)
    return _build(table, f"cluster {path}")


def _read_with_bases(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """What a file says on top of what its base says. `above` are the files it is the base of."""
    if path.resolve() in above:
        raise UsageError(f"cluster {path}: is its own base; start one of the files from another")
    table = read_toml(path, "cluster")
    base = table.pop("base", None)
    if base is None:
        return table
    if base in builtin_names():
        below = read_toml(_BUILTIN / f"{base}.toml", "cluster")
    elif isinstance(base, str) and (path.parent / base).is_file():
        below = _read_with_bases(path.parent / base, (*above, path.resolve()))
    else:
        raise UsageError(
            f"cluster {path}: base = {base!r} is not a built-in cluster; use one of "
            f"{', '.join(builtin_names())}, or the path of a file beside this one"
        )
    below.pop("name", None)
    return _merge(below, table)


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
    if cluster.gpus_per_node % cluster.host.gpus_per_switch != 0:
        raise UsageError(
            f"{where}: host.gpus_per_switch = {cluster.host.gpus_per_switch} does not divide "
            f"gpus_per_node = {cluster.gpus_per_node}; every PCIe switch has the same number of "
            "GPUs"
        )
    if (fault := fabric_fault(cluster)) is not None:
        raise UsageError(f"{where}: {fault}")
    return cluster
