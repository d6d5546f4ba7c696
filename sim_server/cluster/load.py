"""Reading of cluster descriptions: the built-in ones and the user's TOML files."""

from __future__ import annotations

import dataclasses
import difflib
import os
from pathlib import Path
from typing import Any

from sim_server.cluster.description import Cluster, NodeType
from sim_server.cluster.fabric_checks import fabric_fault
from sim_server.cluster.gpus import gpu_fault, gpu_table, part_gpu
from sim_server.cluster.node_checks import node_fault
from sim_server.cluster.settings import read_record
from sim_server.errors import UsageError
from sim_server.files.toml_file import read_toml

_BUILTIN = Path(__file__).parent / "builtin"
# Files that start from each other (assumed).
_MOST_BASES = 16


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
    if not _is_file(path) and name_or_path.lower() in builtin_names():
        return load_cluster(name_or_path.lower())
    if not _is_file(path):
        if path.suffix or path.name != name_or_path:
            raise UsageError(
                f"cluster {name_or_path}: there is no such file; phantora cluster list shows what "
                "is built in"
                if not os.path.lexists(name_or_path)
                else f"cluster {name_or_path}: is no regular file; name a TOML file"
            )
        near = difflib.get_close_matches(name_or_path, builtin_names(), n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"there is no cluster '{name_or_path}'; {hint}Built in are "
            f"{', '.join(builtin_names())}; anything else is the path of a TOML file"
        )
    table = _read_with_bases(path, ())
    table.setdefault("name", path.stem)
    _complete_groups(table, path)
    return _build(table, f"cluster {path}")


def _read_with_bases(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """What a file says on top of what its base says. `above` are the files it is the base of."""
    if len(above) >= _MOST_BASES:
        raise UsageError(f"cluster {path}: is the base of a base, and so on, {len(above)} times")
    if path.resolve() in above:
        raise UsageError(f"cluster {path}: is its own base; start one of the files from another")
    table = read_toml(path, "cluster")
    base = table.pop("base", None)
    if base is None:
        return table
    below = _read_base(base, path, (*above, path.resolve()), f"cluster {path}")
    below.pop("name", None)
    return _merge(below, table)


def _read_base(base: object, path: Path, above: tuple[Path, ...], where: str) -> dict[str, Any]:
    """What a table in the file at `path` starts from."""
    if base in builtin_names():
        return read_toml(_BUILTIN / f"{base}.toml", "cluster")
    if isinstance(base, str) and _is_file(path.parent / base):
        return _read_with_bases(path.parent / base, above)
    if isinstance(base, str) and base.lower() in builtin_names():
        return read_toml(_BUILTIN / f"{base.lower()}.toml", "cluster")
    raise UsageError(
        f"{where}: base = {base!r} is not a built-in cluster; use one of "
        f"{', '.join(builtin_names())}, or the path of a file beside this one"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def _complete_groups(table: dict[str, Any], path: Path) -> None:
    """Groups of nodes say what differs from their base, or else from the cluster."""
    groups = table.get("node_groups")
    if not isinstance(groups, list):
        return  # none, or an error that is found with all others
    keys = [field.name for field in dataclasses.fields(NodeType)]
    for number, group in enumerate(groups, start=1):
        if not isinstance(group, dict):
            continue
        where = f"cluster {path}: node_groups {number}"
        base = group.pop("base", None)
        below = table if base is None else _read_base(base, path, (path.resolve(),), where)
        groups[number - 1] = _merge({key: below[key] for key in keys if key in below}, group)


def _merge(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in table.items():
        below = merged.get(key)
        own = gpu_table(below, value) if key == "gpu" else value
        both_tables = isinstance(below, dict) and isinstance(own, dict)
        merged[key] = _merge(below, own) if both_tables else own  # type: ignore[arg-type]
    return merged


def _build(table: dict[str, Any], where: str) -> Cluster:
    groups = table.get("node_groups", [])
    for one in (table, *(groups if isinstance(groups, list) else ())):
        if isinstance(one, dict):  # else an error that is found with all others
            part_gpu(one, where)
    cluster = read_record(Cluster, table, "", where)
    if cluster.node_groups and cluster.nodes is None:
        cluster = dataclasses.replace(cluster, nodes=sum(one.nodes for one in cluster.node_groups))
    if (fault := node_fault(cluster) or fabric_fault(cluster) or gpu_fault(cluster)) is not None:
        raise UsageError(f"{where}: {fault}")
    return cluster
