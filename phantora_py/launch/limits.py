"""What a run needs of this machine, looked at before anything is started."""

import resource
import shutil
import tempfile
from pathlib import Path

from sim_server.errors import UsageError

_SHARED_MEMORY = Path("/dev/shm")
# Channels are 4.3 MiB a rank (csrc/protocol/channel.h); the rest is small.
_BYTES_PER_RANK = 5 << 20
# Two ranks of PyTorch run with 20 files each; rank 0 holds a connection or two to every other. With
# room for the program's own (assumed).
_FILES = 32
_FILES_PER_RANK = 4


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


def find_room(ranks: int) -> Path:
    """Where the channels of `ranks` ranks have room: in shared memory or among temporary files.

    Raises: UsageError if there is none.
    """
    needed = ranks * _BYTES_PER_RANK
    places = (_SHARED_MEMORY, Path(tempfile.gettempdir()))
    found = {place: shutil.disk_usage(place).free for place in places if place.is_dir()}
    for place, free in found.items():
        if free > needed:
            return place
    free_text = ", ".join(f"{free >> 20} MiB in {place}" for place, free in found.items())
    raise UsageError(
        f"{ranks} ranks share {needed >> 20} MiB of memory with the simulation, and there is no "
        f"room: {free_text} free. Make room there or set TMPDIR to a directory that has it."
    )
