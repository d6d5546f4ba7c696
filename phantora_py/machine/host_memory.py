"""Memory of this machine: how much is left, and what processes take.

A container's limit counts like the machine's own. Of what processes share each counts its part
(proportional set size, PSS), so that sums mean something.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
# A limit beyond this is none: version 1 writes a number of pages that nobody has (assumed).
_NO_LIMIT_BYTES = 1 << 60


@dataclass(frozen=True)
class _Group:
    """A control group that has a limit, and its files.

    Source: the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
    """

    directory: Path
    limit: str
    usage: str
    reclaimable: str

    def limit_bytes(self) -> int:
        """What may be taken; the largest number if there is no limit, or no such group."""
        try:
            text = (self.directory / self.limit).read_text().strip()
        except OSError:
            return _NO_LIMIT_BYTES
        return _NO_LIMIT_BYTES if text == "max" else int(text)

    def left_bytes(self) -> int:
        statistics = (self.directory / "memory.stat").read_text().split()
        spare_bytes = int(statistics[statistics.index(self.reclaimable) + 1])
        used_bytes = int((self.directory / self.usage).read_text())
        return max(0, self.limit_bytes() - used_bytes + spare_bytes)


def available_bytes() -> int:
    """Memory that can still be taken before the kernel must swap or kill."""
    machine_bytes: int = psutil.virtual_memory().available
    return min([machine_bytes, *(group.left_bytes() for group in _limited_groups())])


@cache
def _limited_groups() -> tuple[_Group, ...]:
    """Those of our control groups that limit memory."""
    found = []
    for line in _OWN_GROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, files = _CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = _CGROUPS / "memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # In a container the path may be the machine's, which is not to be seen there.
        group = root / path.lstrip("/")
        above = (one for one in group.parents if root in one.parents)
        found += [_Group(directory, *files) for directory in {root, group, *above}]
    return tuple(group for group in found if group.limit_bytes() < _NO_LIMIT_BYTES)


def pss_bytes(pids: Iterable[int]) -> int:
    """What processes take together. Those that end meanwhile count nothing."""
    total_bytes = 0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total_bytes += psutil.Process(pid).memory_full_info().pss
    return total_bytes


def oom_kills() -> int:
    """How many processes this kernel has killed for lack of memory since it started."""
    words = Path("/proc/vmstat").read_text().split()
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0
