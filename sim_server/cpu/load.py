"""Reading of processor profiles, built in or of a file."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any

from sim_server.cpu.profile import CpuProfile
from sim_server.errors import UsageError
from sim_server.files.toml_file import read_toml

_BUILTIN = Path(__file__).parent / "builtin"

DEFAULT_CPU = "genoa"
"""Of a cluster that names none (assumed)."""


def cpu_names() -> list[str]:
    """Names of the processor profiles that come with Phantora."""
    return sorted(path.stem for path in _BUILTIN.glob("*.toml"))


def load_cpu(name: str) -> CpuProfile:
    """The built-in profile of this name, or that of a TOML file. Raises: UsageError."""
    if name.endswith(".toml"):
        path = Path(name)
        return _profile(path.stem, read_toml(path, "processor profile"))
    names = cpu_names()
    if name.lower() not in names:
        near = difflib.get_close_matches(name.lower(), names, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"there is no processor profile '{name}'; {hint}There are {', '.join(names)}, "
            "or give a TOML file of `phantora calibrate-host`."
        )
    return _profile(name.lower(), read_toml(_BUILTIN / f"{name.lower()}.toml", "processor profile"))


@cache
def is_amd(name: str | None) -> bool:
    """Whether AMD made a cluster's processor: NCCL estimates the network's times by that.

    One of a file, which may be elsewhere by now, is taken to be like the default.
    """
    return load_cpu(DEFAULT_CPU if name is None or name.endswith(".toml") else name).is_amd


def _profile(name: str, values: dict[str, Any]) -> CpuProfile:
    """Its own times, or those of its `base` at its `speed`."""
    if "base" not in values:
        return CpuProfile.from_dict(name, values)
    try:
        speed, widest = float(values["speed"]), float(values["widest"])
        title, source = str(values["title"]), str(values["source"])
        if speed <= 0 or widest < 1:
            raise ValueError(f"speed = {speed}, widest = {widest}")
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"The processor profile {name} is damaged: {error}.") from error
    return load_cpu(str(values["base"])).scaled(name, title, source, speed, widest)
