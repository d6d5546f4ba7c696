"""The options of `phantora run` as keywords, and these as words of its command line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict, get_origin, get_type_hints

FilePath = str | os.PathLike[str]


class RunOptions(TypedDict, total=False):
    """As on the command line (docs/reference.md), with `_` for `-`. None: not given."""

    cluster: FilePath | None
    ranks: int | None
    nodes: int | None
    gpus_per_node: int | None
    gpus: int | None
    fold: str | int | None
    mesh: str | None
    apart: str | None
    witness: int | None
    host_time: str | None
    host_gaps: FilePath | None
    cpu: FilePath | None
    host_samples: bool
    data_time: str | None
    values_threshold: str | None
    host_tensors: str | None
    until_steady: bool
    iteration: str | None
    memory_kinds: bool
    modules: bool
    cache: FilePath | None
    gpu: bool
    executor: str | None
    expert_load: FilePath | None
    lookups: FilePath | None
    unsupported: str | None
    server: str | None
    token_file: FilePath | None
    tls_cert: FilePath | None
    tls_key: FilePath | None
    tls_ca: FilePath | None
    insecure: bool
    hosts: str | int | None
    hosts_file: FilePath | None
    engine: str | None
    listen: str | None
    isolation: str | None
    backend: str | None
    network: str | None
    read_only: bool
    writable: Sequence[FilePath]
    no_zygote: bool
    stall_limit: float | None
    memory_limit: str | None
    output: FilePath | None
    min_trust: str | float | None
    strict: bool
    accept_unknown: Sequence[str]
    rank: Sequence[str]
    log_dir: FilePath | None
    execution_trace: FilePath | None
    iterations: int | None
    quiet: bool


def words_of(options: Mapping[str, object]) -> Iterator[str]:
    """The words that give these options to `phantora run`. Raises: TypeError for a name that is
    none, and for a value of another kind.
    """
    kinds = get_type_hints(RunOptions)
    for name, value in options.items():
        if name not in kinds:
            raise TypeError(f"run() has no option {name!r}; {_near(name, list(kinds))}")
        yield from _words(name, value, kinds[name])


def _near(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def _words(name: str, value: object, kind: object) -> Iterator[str]:
    option = f"--{name.replace('_', '-')}"
    if kind is bool:
        if not isinstance(value, bool):
            raise TypeError(f"run(): {name} is True or False, not {value!r}")
        if value:
            yield option
    elif get_origin(kind) is Sequence:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError(f"run(): {name} is a list, as [{value!r}], not {value!r}")
        yield from (f"{option}={_text(name, one)}" for one in value)
    elif value is not None:
        yield f"{option}={_text(name, value)}"


def _text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float, os.PathLike)):
        raise TypeError(f"run(): {name} is a text, a number or a path, not {value!r}")
    return str(value)
