"""The host gaps of a measured run, made ready for runs that replay them (`--host-time recorded`).

Finds every reason why they cannot be used; csrc/shim/host_time/gap_replay.h charges them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phantora_py.data import RunData
from phantora_py.launch.options import RunOptions
from sim_server.errors import UsageError

# Of a signature, up to the first number outside its strings: what csrc/shim/host_time/gap_replay.cc
# looks up when the whole signature is unknown.
_FAMILY = re.compile(r'(?:"[^"]*"|[^"0-9])*')
_HOW_TO_MAKE = "`phantora run --host-time measured -o FILE` writes one"


@dataclass(frozen=True)
class HostGaps:
    """Gaps of one measured run. Units: ns of processor time."""

    path: Path
    by_key: Mapping[str, int]

    @property
    def origin(self) -> dict[str, str]:
        """What run.json says about them."""
        digest = hashlib.sha256(self.to_text().encode()).hexdigest()
        return {"file": self.path.name, "sha256": digest}

    def to_text(self) -> str:
        """The lines that the shim reads."""
        return "".join(f"{gap_ns} {key}\n" for key, gap_ns in sorted(self.by_key.items()))


def choose_host_gaps(options: RunOptions, versions: Mapping[str, str]) -> HostGaps | None:
    """What the run replays, if it does. `versions`: of the program that is about to run.

    Raises: UsageError if options contradict each other or the file does not fit.
    """
    replays = options.host_time == "recorded"
    if options.host_gaps is None:
        if replays:
            raise UsageError(f"--host-time recorded needs --host-gaps FILE; {_HOW_TO_MAKE}.")
        return None
    if not replays:
        raise UsageError(
            f"--host-gaps is for --host-time recorded, but the host time is {options.host_time}."
        )
    return load_host_gaps(options.host_gaps, versions)


def load_host_gaps(path: Path, versions: Mapping[str, str]) -> HostGaps:
    """Reads a measured run. Raises: UsageError."""
    data = RunData(path)
    model = data.run["host_time"]
    if model != "measured":
        raise UsageError(
            f"{path} is a run with host time {model}, which has no gaps to replay; {_HOW_TO_MAKE}."
        )
    _check_versions(path, data.run["versions"], versions)
    measured = data.host_gaps["measured"]
    if not measured:
        raise UsageError(f"{path} holds no host gaps: no rank of that run came to its end.")
    gaps = {entry["key"]: entry["gap_ns"] for entry in measured}
    return HostGaps(path, {**_family_gaps(measured), **gaps})


def _check_versions(path: Path, recorded: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Another PyTorch has other kernels and another cost per call; so has another Python."""
    for name, label in (("torch", "PyTorch"), ("cuda", "CUDA"), ("python", "Python")):
        before, now = recorded.get(name, ""), current.get(name, "")
        if name == "python":
            before, now = (".".join(version.split(".")[:2]) for version in (before, now))
        if before != now:
            raise UsageError(
                f"{path} was measured with {label} {before or '(none)'}, but the program runs with "
                f"{now or '(none)'}; measure again: {_HOW_TO_MAKE}."
            )


def _family_gaps(measured: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Means over all calls of the signatures of one family."""
    calls: dict[str, int] = {}
    spent_ns: dict[str, int] = {}
    for entry in measured:
        if not entry["key"].startswith("{"):
            continue
        family = family_of(entry["key"])
        calls[family] = calls.get(family, 0) + entry["calls"]
        spent_ns[family] = spent_ns.get(family, 0) + entry["calls"] * entry["gap_ns"]
    return {family: spent_ns[family] // count for family, count in calls.items()}


def family_of(signature: str) -> str:
    """A signature without its numbers: the kernel's name, or the library and the operation."""
    found = _FAMILY.match(signature)
    assert found is not None  # it also matches nothing
    return found[0]
