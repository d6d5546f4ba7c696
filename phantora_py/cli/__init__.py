"""The command line: `phantora VERB ...`.

Each verb is a module with NAME, HELP, add_arguments and run (see `commands`); this file parses, and
is the one place where an error becomes a message and an exit code.
"""

import argparse
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

from phantora_py.cli.commands import make_parser
from phantora_py.cli.messages import print_error
from sim_server.errors import InternalError, PhantoraError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        options = _parse(sys.argv[1:] if arguments is None else arguments)
        code: int = options.run(options)
    except PhantoraError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("phantora: interrupted; every rank was stopped.", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        # A fault of ours: whoever mends it needs the traceback.
        traceback.print_exc()
        print_error(InternalError("this is a fault of phantora; please report it with the above."))
        return InternalError.exit_code
    return code


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What follows the first `--` is the user's command and none of our business here."""
    position = arguments.index("--") if "--" in arguments else len(arguments)
    options = make_parser().parse_args(arguments[:position])
    options.command = tuple(arguments[position + 1 :])
    return options


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
