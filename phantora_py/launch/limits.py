"""What a run needs of this machine, looked at before anything is started."""

import os
import resource
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from sim_server.errors import UsageError

_SHARED_MEMORY = Path("/dev/shm")
# Channels are 4.3 MiB a rank (csrc/protocol/channel.h); the rest is small.
_BYTES_PER_RANK = 5 << 20
# Two ranks of PyTorch run with 20 files each; rank 0 holds a connection or two to every other. With
# room for the program's own (assumed).
_FILES = 32
# Names of sockets have 107 bytes (unix(7)); below the directory ours have 35 at most.
_MOST_PATH_BYTES = 70
# Channels, and a data file of some length; a larger one is refused when it comes to that.
_FILE_BYTES = 64 << 20
_FILES_PER_RANK = 4
# Of a run of N ranks, 26 + 2 N processes and threads were counted on two processors, without the
# program's own. gRPC's go with the processors: up to 16, three times (assumed).
_PROCESSES = 24
_PROCESSES_PER_RANK = 2
_PROCESSES_PER_PROCESSOR = 3
_MOST_PROCESSORS = 16
# A server without agents has nine, on two processors; each host that joins adds some (assumed).
_SERVER_THREADS = 16
# A rank reserves 1 TiB for its GPU (csrc/shim/core/addresses.h), and PyTorch's libraries beside it.
_ADDRESS_BYTES = 5 << 38
# A thread reserves 8 MiB for its stack and up to 128 MiB for its part of the heap; a server has
# some hundred (assumed).
_SERVER_ADDRESS_BYTES = 16 << 30


def require_files(ranks: int) -> None:
    """Has this process and the ranks open as many files as they need.

    Raises: UsageError if that is not permitted.
    """
    needed = _FILES + _FILES_PER_RANK * ranks
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"A process may open {hard} files here, and a run of {ranks} ranks needs {needed}. "
            f"Raise the limit (ulimit -n {needed}) or run fewer ranks."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def require_processes(ranks: int) -> None:
    """Raises: UsageError if fewer processes and threads can be started here than a run needs."""
    needed = _PROCESSES + _PROCESSES_PER_RANK * ranks + _threads_of_grpc()
    _require_threads(needed, f"a run of {ranks} ranks needs", "or run fewer ranks.")


def require_server_processes() -> None:
    """Raises: UsageError if fewer threads can be started here than a server needs."""
    needed = _SERVER_THREADS + _threads_of_grpc()
    _require_threads(needed, "a server needs", "or end others of this user.")


def _threads_of_grpc() -> int:
    return _PROCESSES_PER_PROCESSOR * min(os.cpu_count() or 1, _MOST_PROCESSORS)


def _require_threads(needed: int, who: str, otherwise: str) -> None:
    """Whichever limit there is: of the user or of a container. It is tried, as gRPC ends or waits
    for ever in a process that cannot start a thread. Raises: UsageError.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    end = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(needed):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise UsageError(
            f"{len(started)} more processes and threads can be started here, and {who} {needed}. "
            f"Raise the limit (ulimit -u, or the container's) {otherwise}"
        ) from error
    finally:
        end.set()
        for thread in started:
            thread.join()


def find_room(ranks: int) -> Path:
    """Where the channels of `ranks` ranks have room: in shared memory or among temporary files.

    Raises: UsageError if there is none.
    """
    needed = ranks * _BYTES_PER_RANK
    found: list[str] = []
    for place in _places():
        why = _why_not(place, needed)
        if why is None:
            return place
        found.append(why)
    raise UsageError(
        f"{ranks} ranks share {needed >> 20} MiB of memory with the simulation, and there is no "
        f"room: {', '.join(found)}. Make room there or set TMPDIR to a directory that has it."
    )


def _places() -> list[Path]:
    try:
        temporary = [Path(tempfile.gettempdir())]
    except OSError:  # no directory that it can write to
        temporary = []
    return [_SHARED_MEMORY, *temporary]


def _why_not(place: Path, needed: int) -> str | None:
    """Why a run directory cannot lie there. None: it can."""
    if not place.is_dir():
        return f"{place} is no directory"
    free = shutil.disk_usage(place).free
    if free <= needed:
        return f"{free >> 20} MiB in {place} free"
    if len(os.fsencode(place)) > _MOST_PATH_BYTES:
        return f"{place} is too long for the names of sockets, {_MOST_PATH_BYTES} bytes at most"
    try:
        with tempfile.TemporaryFile(dir=place):
            return None
    except OSError as error:
        return f"{place} cannot be written to ({error.strerror})"


def require_file_size(ranks: int) -> None:
    """Raises: UsageError if files may not be as large as a run needs them (ulimit -f)."""
    _require_bytes(
        resource.RLIMIT_FSIZE,
        _FILE_BYTES,
        lambda most: (
            f"A file may have {most:,} bytes here, and a run of {ranks} ranks needs "
            f"{_FILE_BYTES:,}. Raise the limit (ulimit -f unlimited)."
        ),
    )


def require_addresses() -> None:
    """Raises: UsageError if a process may not reserve as many addresses as a rank does."""
    _require_bytes(
        resource.RLIMIT_AS,
        _ADDRESS_BYTES,
        lambda most: (
            f"A process may reserve {most:,} bytes of addresses here, and a rank reserves "
            f"{_ADDRESS_BYTES:,} for the memory of its GPU, which takes no memory of this machine. "
            "Raise the limit (ulimit -v unlimited)."
        ),
    )


def require_server_addresses() -> None:
    """Raises: UsageError if a server may not reserve as many addresses as its threads do: gRPC ends
    a process that cannot start one.
    """
    _require_bytes(
        resource.RLIMIT_AS,
        _SERVER_ADDRESS_BYTES,
        lambda most: (
            f"A process may reserve {most:,} bytes of addresses here, and the threads of a server "
            f"reserve {_SERVER_ADDRESS_BYTES:,}. Raise the limit (ulimit -v unlimited)."
        ),
    )


def _require_bytes(limit: int, needed: int, refusal: Callable[[int], str]) -> None:
    """Lifts the soft limit to the hard one where it is too low. Raises: UsageError."""
    soft, hard = resource.getrlimit(limit)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(refusal(hard))
    resource.setrlimit(limit, (hard, hard))
