"""NCCL's versions: how they are numbered, and which algorithms came when.

Numbers are those of ncclGetVersion, NCCL_VERSION in nccl.h: 2.21.5 is 22105.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sim_server.collectives.tuning import Algorithm

NEWEST = 23007
"""What programs are taken to have of which nothing else is known: NCCL_VERSION_CODE of
csrc/shim/nccl/nccl_types.h."""

# Source: NCCL's release notes, "Key Features and Enhancements" of these versions.
_FIRST = {Algorithm.NVLS: 21700, Algorithm.NVLS_TREE: 21800, Algorithm.PAT: 22300}

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def version_code(version: str) -> int | None:
    """The number of a version such as "2.21.5"; None for what is none."""
    found = _VERSION.match(version)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major * 10_000 + minor * 100 + patch


def came_later(code: int) -> Collection[Algorithm]:
    """Algorithms that a version does not have."""
    return [algorithm for algorithm, first in _FIRST.items() if code < first]
