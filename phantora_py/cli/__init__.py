"""The command line: `phantora VERB ...`.

Each verb is a module with add_arguments and run (see `commands`); this file parses, and
is the one place where an error becomes a message and an exit code.
"""

import argparse
import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from phantora_py.cli.commands import make_parser
from phantora_py.cli.messages import print_error
from phantora_py.launch.interrupts import SIGNALS
from sim_server.errors import InternalError, Interrupted, PhantoraError, UsageError

PIPE_CLOSED = 141  # as a shell reports SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    try:
        with _interruptible():
            _require_streams()
            options = _parse(sys.argv[1:] if arguments is None else arguments)
            code: int = options.run(options)
            sys.stdout.flush()
    except PhantoraError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print_error(Interrupted("everything was stopped at once."))
        return Interrupted.exit_code
    except BrokenPipeError:
        return _end_at_closed_pipe()
    except SystemExit as end:
        # What rich makes of it.
        if isinstance(end.__context__, BrokenPipeError):
            return _end_at_closed_pipe()
        raise
    except Exception as error:
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


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What follows the first `--` is the user's command and none of our business here."""
    position = arguments.index("--") if "--" in arguments else len(arguments)
    options = make_parser().parse_args(arguments[:position])
    options.command = tuple(arguments[position + 1 :])
    return options


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turns the signals that ask for an end into KeyboardInterrupt; what is ignored stays so."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # One is enough: cleaning up is under way and takes seconds at most.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt
