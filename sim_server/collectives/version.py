"""NCCL's versions: how they are numbered.

Numbers are those of ncclGetVersion, NCCL_VERSION in nccl.h: 2.21.5 is 22105.
"""

from __future__ import annotations

import re

NEWEST = 23007
"""What programs are taken to have of which nothing else is known: NCCL_VERSION_CODE of
csrc/shim/nccl/nccl_types.h."""

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def version_code(version: str) -> int | None:
    """The number of a version such as "2.21.5"; None for what is none."""
    found = _VERSION.match(version)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major * 10_000 + minor * 100 + patch
