"""What a command needs of this machine, and how it is told if there is none."""

import errno
import os
import sys

from sim_server.errors import UsageError

_LACKS = {
    errno.EAGAIN: "Raise the number of processes (ulimit -u).",
    errno.ENOMEM: "Free memory, or raise its limit (ulimit -v).",
    errno.EMFILE: "Raise the number of open files (ulimit -n).",
    errno.ENFILE: "Too many files are open on it.",
    errno.ENOSPC: "Make room.",
    errno.EDQUOT: "Make room in your quota.",
    errno.EFBIG: "Raise the size of files (ulimit -f).",
    errno.EROFS: "Name a place that can be written to.",
}


def require_streams() -> None:
    """Closed standard streams are not taken by files that are opened later.

    Raises: UsageError if there is no standard output: all that is printed would be lost.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            assert null <= descriptor, "descriptors below are open"
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - for good
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        raise UsageError("The standard output is closed. Redirect it, as with '> /dev/null'.")


def lack_of(error: Exception) -> UsageError | None:
    """What this machine has not enough of. None: `error` tells of something else."""
    if isinstance(error, OSError) and error.errno in _LACKS:
        where = f" ({error.filename})" if error.filename else ""
        return UsageError(
            f"This machine refused what phantora needs: {error.strerror}{where}. "
            f"{_LACKS[error.errno]}"
        )
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return UsageError(
            "This machine refused what phantora needs: memory or threads. Look at ulimit -u and -v."
        )
    return None
