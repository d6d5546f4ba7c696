"""Processes and what they have started."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


def tree(pid: int) -> Iterator[int]:
    """A process and those below it, as far as they live. A look takes a file per thread; to ask for
    the parent of every process of the machine would take longer.
    """
    pending = [pid]
    while pending:
        process = pending.pop()
        yield process
        with contextlib.suppress(OSError):  # it has ended
            for task in Path(f"/proc/{process}/task").iterdir():
                pending += map(int, (task / "children").read_text().split())
