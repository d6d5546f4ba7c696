"""Processes that stand for those of a rank."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

# Sleeps as `sleep_as_child` in csrc/shim/libc/virtual_clock.cc does: rt_sigtimedwait for no signal.
DOZE = (
    "import ctypes; ctypes.CDLL(None).syscall(128, bytes(8), None, (ctypes.c_long * 2)(60, 0), 8)"
)


@contextmanager
def running(script: str) -> Iterator[int]:
    """A shell script that says when it has begun; its pid."""
    with subprocess.Popen(
        ["sh", "-c", f"echo; {script}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=True)
