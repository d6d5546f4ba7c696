"""What a run was given, as the data file tells it, and how that differs between two runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phantora_py.data import RunData
from sim_server.fold import Fold

Inputs = dict[str, dict[str, str]]
"""Group, name, value."""


@dataclass(frozen=True)
class Difference:
    """One input. None: it was not given."""

    group: str
    name: str
    first: str | None
    this: str | None


def inputs_of(data: RunData) -> Inputs:
    """Everything that may have made a difference, by group."""
    run, settings = data.run, data.settings
    cluster = run["cluster"]
    profile = {key: value for key, value in settings["gpu"].items() if key != "name"}
    layout = {name: str(run[name]) for name in ("ranks", "nodes", "gpus_per_node")}
    layout["folded"] = _folded(data.told.fold)
    host = {name: str(run.get(name)) for name in ("host_time", "host_gaps", "host_tensors")}
    host["data_time"] = str((run.get("data_time") or {}).get("batch_ns"))
    load = run.get("expert_load", {"name": "uniform"})
    host["expert_load"] = load["name"] if not load.get("weights") else str(load["weights"])
    answers = {"answer": str(run.get("unsupported", "stop"))}
    return {
        "command": options_of(run["command"]),
        "environment": run.get("environment", {}) | settings["nccl_environment"],
        "layout": layout,
        "cluster": _cluster(cluster),
        f"GPU {cluster.get('gpu', '')}": _flat(profile),
        "host": host,
        "kernel times": {"cache": str(run.get("cache"))},
        "calls not modelled": answers,
        "supposed": _supposed(run),
        "versions": dict(run["versions"]),
    }


def differences(first: Inputs, this: Inputs) -> list[Difference]:
    """What differs, in the order of the groups. The profiles of different GPUs are not compared:
    the cluster names them.
    """
    found = []
    for group in first:
        if group not in this:
            continue
        one, other = first[group], this[group]
        for name in sorted({*one, *other}):
            if one.get(name) != other.get(name):
                found.append(Difference(group, name, one.get(name), other.get(name)))
    return found


def program_of(words: Sequence[str]) -> str:
    """The script or module that a command runs, without its directory."""
    for word, before in zip(words, ["", *words], strict=False):
        if before == "-m" or word.endswith(".py"):
            return Path(word).name
    return Path(words[0]).name if words else ""


def options_of(words: Sequence[str]) -> dict[str, str]:
    """The words of a command by option. A word that follows an option is taken for its value, which
    is wrong for a switch before an argument and harmless here; options given several times have
    their values together. What remains is the command itself, under "".
    """
    options: dict[str, list[str]] = {}
    position = 0
    while position < len(words):
        name, equals, value = words[position].partition("=")
        position += 1
        if not _is_option(name):
            # `key=value` is how Hydra and its like are told.
            name, value = (name, value) if name and equals else ("", words[position - 1])
        elif not equals and position < len(words) and not _is_option(words[position]):
            value = words[position]
            position += 1
        options.setdefault(name, []).append(value)
    return {name: shlex.join(filter(None, values)) for name, values in options.items()}


def _folded(fold: Fold | None) -> str:
    """Which dimensions of the mesh, and what is apart."""
    if fold is None:
        return "no"
    folded = [f"{one.name}={one.size}" for one in fold.mesh if one.folded]
    return ", ".join([*folded, *(f"apart {one}" for one in fold.apart)])


def _supposed(run: Mapping[str, Any]) -> dict[str, str]:
    """What a resimulation made of kernels."""
    made = run.get("resimulation") or {}
    factors = made.get("what_if", {}).get("kernels", {})
    return {f"kernels {pattern}": f"x {factor:g}" for pattern, factor in factors.items()}


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit() and word != "-"


def _cluster(cluster: Mapping[str, Any]) -> dict[str, str]:
    """Its settings; of groups of nodes what is other than the rest of the cluster."""
    flat = _flat({key: value for key, value in cluster.items() if key != "node_groups"})
    for number, group in enumerate(cluster.get("node_groups", ())):
        own = {key: value for key, value in _flat(group).items() if flat.get(key) != value}
        flat[f"node_groups {number}"] = ", ".join(f"{key} {value}" for key, value in own.items())
    return flat


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = str(value)
    return flat
