"""Leaves nothing behind: waits for the end of the run, then kills its processes and removes its
directory.

    python sweeper.py RUN_DIR PARTIAL_FILE OUTPUT_FILE

A data file that is left unfinished then is one that phantora was killed over: it becomes the output
file, which can be read as far as it goes.

It is a process of its own, so that it also works when phantora is killed, and it imports nothing of
phantora. Whoever starts it has blocked the signals that would end it (`rundir`). It knows the
processes of a run by the PHANTORA_RUN_DIR in their environment.
"""

import contextlib
import os
import shutil
import signal
import stat
import sys
import time

# Killed processes are gone within milliseconds; one in an uninterruptible call may need longer
# (assumed).
_LIMIT_S = 10
_PAUSE_S = 0.01


def main() -> None:
    run_dir, partial_file, output_file = sys.argv[1:]
    sys.stdin.buffer.read()
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        remaining = find_processes(run_dir)
        if not remaining:
            break
        for pid in remaining:
            kill(pid)
        time.sleep(_PAUSE_S)
    shutil.rmtree(run_dir, ignore_errors=True)
    if is_replaceable(output_file):
        with contextlib.suppress(FileNotFoundError):
            os.replace(partial_file, output_file)


def is_replaceable(path: str) -> bool:
    """Whether it is a regular file or nothing: a rename would also replace a device."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


def find_processes(run_dir: str) -> list[int]:
    """Processes that were started with PHANTORA_RUN_DIR=run_dir; zombies have no environment."""
    mark = b"PHANTORA_RUN_DIR=" + os.fsencode(run_dir)
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
            except OSError:
                continue  # It has ended, or it belongs to somebody else.
            if mark in environment:
                found.append(int(entry))
    return found


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # It has ended on its own.


if __name__ == "__main__":
    main()
