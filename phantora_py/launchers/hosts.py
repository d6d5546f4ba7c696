"""Files and lists of hosts: how many nodes a job has, and how many processes each."""

import re
from collections.abc import Sequence
from pathlib import Path

from sim_server.errors import UsageError

_LINE = re.compile(r"(?P<name>[^\s:]+)(:(?P<count>\d+))?(\s+(.*\s)?slots\s*=\s*(?P<slots>\d+).*)?")


def read_hostfile(path: str, what: str) -> list[tuple[str, int | None]]:
    """Names and slots of a file with one host in a line, as Open MPI, MPICH and DeepSpeed read it.

    `what`: the option that names it. Raises: UsageError if it cannot be read or has no host.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror}.") from error
    found = []
    for line in lines:
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.match(text)
        assert match is not None, text  # any first word will do
        slots = match["slots"] or match["count"]
        found.append((match["name"], int(slots) if slots else None))
    if not found:
        raise UsageError(f"{what} {path} names no host.")
    return found


def read_hosts(text: str) -> list[tuple[str, int | None]]:
    """Names and slots of `a:8,b:8`; a host that comes twice has the slots of both."""
    found: dict[str, int | None] = {}
    for part in filter(None, text.split(",")):
        name, _, count = part.partition(":")
        slots = int(count) if count.isdecimal() else None
        before = found.get(name)
        found[name] = slots if name not in found else (before or 1) + (slots or 1)
    return list(found.items())


def even_slots(hosts: Sequence[tuple[str, int | None]], what: str) -> int | None:
    """The slots of each host, None if they are not told. Raises: UsageError if they differ."""
    slots = {count for _, count in hosts}
    if len(slots) > 1:
        told = ", ".join(f"{name} has {count or 'none'}" for name, count in hosts)
        raise UsageError(
            f"{what}: simulated nodes have the same number of ranks each, but {told} slots."
        )
    return slots.pop()
