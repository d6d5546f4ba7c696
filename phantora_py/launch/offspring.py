"""Forks one rank into its namespaces and keeps its exit status.

In a pid namespace the rank needs a first process above it (signals that a program sends itself do
nothing to a first process, and orphans must be waited for):

    starter -> helper (enters the namespaces, forks, ends) -> first process -> rank

The starter adopts the first process when the helper ends. It learns the rank's status through a
pipe, because a first process cannot end by a signal of its own choice.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from phantora_py.isolation import container, system
from phantora_py.isolation.container import Node


@dataclass
class Offspring:
    """A rank's process as the starter sees it: the rank itself or the first process above it."""

    rank: int
    pid: int
    report: int | None = None

    def exit_status(self, wait_status: int) -> int:
        """Exit code, or minus the signal, from what waitpid said of `pid`."""
        if self.report is not None:
            text = os.read(self.report, 32)
            os.close(self.report)
            if text:
                return int(text)
        return os.waitstatus_to_exitcode(wait_status)


def fork_rank(
    rank: int,
    ranks: int,
    namespaces: frozenset[str],
    node: Node | None,
    release: Callable[[], None],
) -> Offspring | None:
    """Forks `rank`. Returns None in the rank; `release` drops there what belongs to the starter.

    Raises: OSError, in the child, if the namespaces cannot be entered.
    """
    if "pid" in namespaces:
        return _fork_below_first(rank, ranks, namespaces, node, release)
    starter = os.getpid()
    pid = os.fork()
    if pid:
        return Offspring(rank, pid)
    release()
    container.enter(namespaces, node)
    # Entering a user namespace would have undone it.
    system.die_with_parent(starter)
    os.setsid()
    return None


def _fork_below_first(
    rank: int,
    ranks: int,
    namespaces: frozenset[str],
    node: Node | None,
    release: Callable[[], None],
) -> Offspring | None:
    report, reports = os.pipe()
    gate, opens = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(report)
        os.close(opens)
        release()
        container.enter(namespaces, node)
        first = os.fork()
        if first:
            os.write(reports, b"%d\n" % first)
            os._exit(0)
        _await_adoption(gate)
        container.mount_proc()
        _spread_pids(rank, ranks)
        pid = os.fork()
        if pid:
            _wait_as_first(pid, reports)
        os.close(reports)
        os.setsid()
        return None
    os.close(reports)
    os.close(gate)
    os.waitpid(helper, 0)
    line = os.read(report, 32)
    if not line:
        raise ChildProcessError(f"rank {rank} could not enter its namespaces")
    os.write(opens, b"!")
    os.close(opens)
    return Offspring(rank, int(line), report)


def _await_adoption(gate: int) -> None:
    """Waits until the starter is this process's parent, so that it can ask to die with it."""
    if os.read(gate, 1) != b"!":
        os._exit(1)
    os.close(gate)
    system.die_with_parent(0)


def _spread_pids(rank: int, ranks: int) -> None:
    """Gives each rank process ids of its own: programs put them in file names, and /tmp is shared.

    Source: /proc/sys/kernel/ns_last_pid, see pid_namespaces(7).
    """
    limit = int(Path("/proc/sys/kernel/pid_max").read_text())
    spacing = min(1000, limit // (ranks + 1))
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str((rank + 1) * spacing))
    except OSError:
        return  # Ids that are equal on several machines are common; programs must bear them.


def _wait_as_first(rank_pid: int, reports: int) -> None:
    """What the first process does: waits for every orphan, ends when the rank has ended."""
    while True:
        pid, status = os.wait()
        if pid == rank_pid:
            os.write(reports, b"%d" % os.waitstatus_to_exitcode(status))
            os._exit(0)
