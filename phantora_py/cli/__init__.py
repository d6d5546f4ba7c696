"""The command line: `phantora VERB ...`.

Each verb is a module with add_arguments and run (see `commands`); this file parses, and
is the one place where an error becomes a message and an exit code.
"""

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Sequence

from phantora_py.cli.commands import make_parser
from phantora_py.cli.messages import print_error
from phantora_py.launch.interrupts import Interruptible
from sim_server.errors import InternalError, PhantoraError, UsageError

PIPE_CLOSED = 141  # as a shell reports SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    interruptible = Interruptible()
    try:
        _require_streams()
        options = _parse(sys.argv[1:] if arguments is None else arguments)
        with interruptible:
            code: int = options.run(options)
            sys.stdout.flush()
    except PhantoraError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return _tell_interrupt(interruptible)
    except BrokenPipeError:
        return _end_at_closed_pipe()
    except SystemExit as end:
        # What rich makes of it.
        if isinstance(end.__context__, BrokenPipeError):
            return _end_at_closed_pipe()
        raise
    except Exception as error:
        if interruptible.number is not None:
            return _tell_interrupt(interruptible)
        return _end_unexpectedly(error)
    return code


def _end_unexpectedly(error: Exception) -> int:
    """What this machine lacks is told in a sentence; all else is a fault of ours, and whoever mends
    it needs the traceback.
    """
    told: UsageError | InternalError | None = lack_of(error)
    if told is None:
        traceback.print_exception(error)
        told = InternalError("this is a fault of phantora; please report it with the above.")
    print_error(told)
    return told.exit_code


def _end_at_closed_pipe() -> int:
    """The reader of our output has gone (`| head`); Python must not complain at its exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _require_streams() -> None:
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


def _tell_interrupt(interruptible: Interruptible) -> int:
    error = interruptible.error()
    print_error(error)
    return error.exit_code


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What follows the first `--` is the user's command and none of our business here."""
    position = arguments.index("--") if "--" in arguments else len(arguments)
    options = make_parser().parse_args(arguments[:position])
    options.command = tuple(arguments[position + 1 :])
    return options
