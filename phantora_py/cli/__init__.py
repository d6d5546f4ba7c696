"""The command line: `phantora VERB ...`.

Each verb is a module with add_arguments and run (see `commands`); this file parses, and
is the one place where an error becomes a message and an exit code.
"""

import argparse
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
from sim_server.errors import InternalError, Interrupted, PhantoraError

PIPE_CLOSED = 141  # as a shell reports SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    try:
        with _interruptible():
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
    except Exception:
        # A fault of ours: whoever mends it needs the traceback.
        traceback.print_exc()
        print_error(InternalError("this is a fault of phantora; please report it with the above."))
        return InternalError.exit_code
    return code


def _end_at_closed_pipe() -> int:
    """The reader of our output has gone (`| head`); Python must not complain at its exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


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
