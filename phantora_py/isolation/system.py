"""The system calls of isolation that Python 3.10's os module does not have.

Source: unshare(2), setns(2), mount(2), prctl(2).
"""

import ctypes
import os
import signal
from collections.abc import Iterable
from pathlib import Path

CLONE_FLAGS = {
    "user": 0x10000000,
    "net": 0x40000000,
    "mnt": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "pid": 0x20000000,
}

MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_NOSUID_NODEV_NOEXEC = 0x2 | 0x4 | 0x8
_MS_RDONLY, _MS_REMOUNT = 0x1, 0x20
# Options that a remount would drop, and that an owner of less than the machine may not drop.
_KEPT_OPTIONS = {
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "relatime": 1 << 21,
}

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(namespaces: frozenset[str]) -> None:
    """Leaves the caller's namespaces of these kinds; `pid` takes effect for its children.

    Raises: OSError.
    """
    flags = 0
    for name in namespaces:
        flags |= CLONE_FLAGS[name]
    _check(_libc.unshare(flags), f"unshare {' '.join(sorted(namespaces))}")


def open_namespace(pid: int | str, kind: str) -> int:
    """A descriptor of a process's namespace, which lasts as long as the descriptor."""
    return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def join(namespace: int) -> None:
    """Enters a namespace; `pid` takes effect for children. Raises: OSError."""
    _check(_libc.setns(namespace, 0), "setns")


def join_process(pid: int, kind: str) -> None:
    """Enters a process's namespace. Raises: OSError."""
    namespace = open_namespace(pid, kind)
    try:
        join(namespace)
    finally:
        os.close(namespace)


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """Mounts `source` on `target`. Raises: OSError."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None
    )
    _check(result, f"mount {source} on {target}")


def make_read_only(mount_point: str, options: Iterable[str]) -> None:
    """Makes one mount read-only, which has these `options` of /proc/self/mountinfo. Raises:
    OSError.
    """
    flags = MS_BIND | _MS_REMOUNT | _MS_RDONLY
    for option in options:
        flags |= _KEPT_OPTIONS.get(option, 0)
    mount("none", mount_point, "", flags)


def die_with_parent(parent_pid: int) -> None:
    """Has the kernel kill this process when its parent ends; at once if it has ended already.

    `parent_pid`: the parent as this process sees it (0: it is in an outer pid namespace).
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl PR_SET_PDEATHSIG")
    if os.getppid() != parent_pid:
        os._exit(128 + signal.SIGKILL)


def show_words(words: Iterable[str]) -> None:
    """Has /proc/PID/cmdline, and so `ps`, show `words` of this process, as far as there is room
    where the kernel has put those that it was executed with. Raises: OSError.
    """
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # Source: proc_pid_stat(5), fields 48 and 49; the first of these is the third.
    start, end = int(after_name[45]), int(after_name[46])
    room = end - start
    text = b"".join(os.fsencode(word) + b"\0" for word in words)
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(text[: room - 1].ljust(room, b"\0"))


def adopt_orphans(*, adopt: bool = True) -> None:
    """Makes this process the parent of its descendants whose parent ends, or not any more.

    Raises: OSError.
    """
    done = _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)
    _check(done, "prctl PR_SET_CHILD_SUBREAPER")


def end_descendants() -> None:
    """Kills every descendant that is left, and waits for it. Those of a killed parent become
    children of the process that adopts orphans: this one.
    """
    while True:
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def children() -> list[int]:
    """The pids of this process's children."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def _check(result: int, action: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{action}: {os.strerror(code)}")
