"""Processes that ranks have started and that used a GPU: they are no ranks, so that is not
simulated. Each leaves a line (csrc/shim/calls/call.cc).
"""

import re
from collections import Counter
from pathlib import Path

from sim_server.errors import InternalError

FILE = "unsimulated"
_LINE = re.compile(r"(\d{1,6}) (\d{1,6})")
_MOST_BYTES = 16 << 20


def read_unsimulated(directory: Path, ranks: int) -> list[dict[str, int]]:
    """How many there were, by rank and device: `unsimulated` of run.json (docs/data-file.md).

    Raises: InternalError for a file that no such process has written.
    """
    path = directory / FILE
    if not path.exists():
        return []
    with path.open("rb") as file:
        lines = file.read(_MOST_BYTES).decode("ascii", "replace").splitlines()
    matches = [_LINE.fullmatch(line) for line in lines]
    counts = Counter((int(one[1]), int(one[2])) for one in matches if one is not None)
    if None in matches or any(rank >= ranks for rank, _ in counts):
        raise InternalError(
            f"{path} was overwritten: it does not say which ranks' processes it tells of."
        )
    return [
        {"rank": rank, "device": device, "processes": count}
        for (rank, device), count in sorted(counts.items())
    ]
