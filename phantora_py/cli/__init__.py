"""The command line: `phantora VERB ...`.

Each verb is a module with add_arguments and run (see `commands`); this file parses, and
is the one place where an error becomes a message and an exit code.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from phantora_py.cli.commands import make_parser
from phantora_py.cli.machine import lack_of, require_streams
from phantora_py.cli.messages import print_error
from phantora_py.launch.interrupts import Interruptible
from sim_server.errors import InternalError, PhantoraError, UsageError

PIPE_CLOSED = 141  # as a shell reports SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    interruptible = Interruptible()
    try:
        require_streams()
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
        return _end_unexpectedly(error, interruptible)
    return code


def _end_unexpectedly(error: Exception, interruptible: Interruptible) -> int:
    """An interrupted run is no fault. If this machine lacks something, a sentence says so. All else
    is a bug of phantora, and its traceback is printed.
    """
    if interruptible.number is not None:
        return _tell_interrupt(interruptible)
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


def _tell_interrupt(interruptible: Interruptible) -> int:
    error = interruptible.error()
    print_error(error)
    return error.exit_code


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What follows the first `--` is the user's command and none of our business here."""
    position = arguments.index("--") if "--" in arguments else len(arguments)
    options = make_parser().parse_args(arguments[:position])
    options.command = tuple(arguments[position + 1 :])
    options.words = tuple(arguments)
    return options
