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
# A program takes milliseconds to start; on a busy machine a hundred times that (assumed).
_START_LIMIT_S = 0.5
# A process may be born while the others are looked at, and the one that started it end.
_LOOKS = 2


def main() -> None:
    run_dir, partial_file, output_file = sys.argv[1:]
    sys.stdin.buffer.read()
    end_processes(run_dir)
    shutil.rmtree(run_dir, ignore_errors=True)
    if is_replaceable(output_file):
        with contextlib.suppress(FileNotFoundError):
            os.replace(partial_file, output_file)


def end_processes(run_dir: str) -> None:
    """Kills the run's processes until there are none in several looks."""
    start = time.monotonic()
    looks = 0
    while looks < _LOOKS and (taken := time.monotonic() - start) < _LIMIT_S:
        found, starting = find_processes(run_dir)
        for pid in found:
            kill(pid)
        looks = 0 if found or (starting and taken < _START_LIMIT_S) else looks + 1
        time.sleep(_PAUSE_S)


def is_replaceable(path: str) -> bool:
    """Whether it is a regular file or nothing: a rename would also replace a device."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


def find_processes(run_dir: str) -> tuple[list[int], bool]:
    """Processes that were started with PHANTORA_RUN_DIR=run_dir, and whether there are some that
    may turn out to be.
    """
    mark = b"PHANTORA_RUN_DIR=" + os.fsencode(run_dir)
    found = []
    starting = False
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = file.read()
                if mark in environment.split(b"\0"):
                    found.append(int(entry))
                elif not environment and is_starting(entry):
                    starting = True
            except OSError:
                continue  # It has ended, or it belongs to somebody else.
    return found, starting


def is_starting(entry: str) -> bool:
    """Whether a process without environment may be in its execve, where it has none for a moment:
    it has a program, which threads of the kernel and zombies do not, and is younger than this one.

    Raises: OSError if it has no program.
    """
    os.readlink(f"/proc/{entry}/exe")
    return start_time(entry) >= start_time("self")


def start_time(entry: str) -> int:
    """In clock ticks since the machine's start. Source: proc_pid_stat(5), field 22."""
    with open(f"/proc/{entry}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # It has ended on its own.


if __name__ == "__main__":
    main()
