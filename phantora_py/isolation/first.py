"""The first process of a pid namespace, and how others join it.

A rank's namespaces are made early, by a process that is still small, and held by a first process
that does nothing. The rank is forked later, from a large process, straight into them: one fork of
the large process a rank, and its exit status goes to the starter as it is.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from phantora_py.isolation import container, system
from phantora_py.isolation.nodes import SHARED

# PF_EXITING among the flags of /proc/PID/stat. Source: the kernel's sched.h.
_EXITING = 0x4
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# What a process enters after its fork; it is in its pid namespace from birth.
_ENTERED = (*SHARED, "mnt")


class Killed(Exception):  # noqa: N818 - says what happened
    """A first process, or the one that makes it, was killed from outside."""


def make_first(enter: Callable[[], None], first_pid: int) -> int:
    """Makes namespaces with a first process in them and returns its pid.

    The caller must adopt orphans. `enter` moves a child of the caller into the namespaces, and
    drops there what belongs to the caller. Process ids in the namespace go on from `first_pid`.
    Raises: OSError, Killed.
    """
    report, reports = os.pipe()
    gate, opens = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(report)
        os.close(opens)
        enter()
        # Those that come before it has handlers wait for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        pid = os.fork()
        if pid:
            os.write(reports, b"%d\n" % pid)
            os._exit(0)
        os.close(reports)
        _heed_signals()
        _await_adoption(gate)
        container.mount_proc()
        _continue_pids(first_pid)
        _hold()
    os.close(reports)
    os.close(gate)
    _, status = os.waitpid(helper, 0)
    with os.fdopen(report, "rb") as pipe, os.fdopen(opens, "wb", buffering=0) as gate_opener:
        line = pipe.readline()
        if not line and os.WIFSIGNALED(status):
            raise Killed
        if not line:
            raise ChildProcessError("a rank's namespaces could not be made")
        try:
            gate_opener.write(b"!")
        except BrokenPipeError:
            raise Killed from None
    return int(line)


def fork_into(first_pid: int, namespaces: frozenset[str]) -> int:
    """Forks into the namespaces that `first_pid` holds. Returns as fork does. Raises: OSError."""
    system.join_process(first_pid, "pid")
    pid = os.fork()
    if pid == 0:
        working_directory = os.getcwd()
        _join(first_pid, namespaces)
        os.chdir(working_directory)
    return pid


def is_ending(first_pid: int) -> bool:
    """Whether a first process is on its way out, and takes what is in its namespace along."""
    try:
        stat = Path(f"/proc/{first_pid}/stat").read_text()
    except FileNotFoundError:
        return True
    state, *numbers = stat.rpartition(") ")[2].split()
    return state == "Z" or bool(int(numbers[5]) & _EXITING)


def _join(first_pid: int, namespaces: frozenset[str]) -> None:
    """Enters what `first_pid` holds. Raises: OSError.

    If the first process is ending, the kernel kills all of its pid namespace, this process too.
    """
    try:
        for name in _ENTERED:
            if name in namespaces:
                system.join_process(first_pid, name)
    except OSError:
        if not is_ending(first_pid):
            raise
        while True:
            signal.pause()


def _heed_signals() -> None:
    """The kernel withholds from a namespace's first process what that has no handler for."""
    for number in _ENDS:
        signal.signal(number, lambda number, _frame: os._exit(128 + number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)


def _await_adoption(gate: int) -> None:
    """Waits until the caller is this process's parent, so that it can ask to die with it."""
    if os.read(gate, 1) != b"!":
        os._exit(1)
    os.close(gate)
    system.die_with_parent(0)


def _continue_pids(first_pid: int) -> None:
    """Lets ranks differ in their process ids: programs put them in file names, and /tmp is shared.

    Source: /proc/sys/kernel/ns_last_pid, see pid_namespaces(7).
    """
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(first_pid))
    except OSError:
        return  # Ids that are equal on several machines are common; programs must bear them.


def _hold() -> NoReturn:
    """What a first process does: the kernel waits for the orphans that become its children."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        signal.pause()
