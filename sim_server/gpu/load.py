"""Reading of the built-in GPU profiles."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.files.toml_file import read_toml
from sim_server.gpu.profile import GpuProfile

_BUILTIN = Path(__file__).parent / "builtin"
_COMMON = "common"


def profile_names() -> list[str]:
    """Names of the GPU profiles that come with Phantora."""
    return sorted(path.stem for path in _BUILTIN.glob("*.toml") if path.stem != _COMMON)


def load_gpu(name: str) -> GpuProfile:
    """The built-in profile of this name, such as "h100". Raises: UsageError."""
    names = profile_names()
    name = name.lower()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(f"there is no GPU profile '{name}'; {hint}There are {', '.join(names)}")
    return GpuProfile.from_dict({"profile": name, **_resolved(name)})


def _resolved(name: str) -> dict[str, Any]:
    """What the file says over its `base`, another GPU or what all have in common."""
    own = _read(name)
    base = own.pop("base", None)
    return _merge(_resolved(base) if base else _read(_COMMON), own)


def _read(name: str) -> dict[str, Any]:
    return read_toml(_BUILTIN / f"{name}.toml", "GPU profile")


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`, table by table."""
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(inner, dict) else value
    return merged
