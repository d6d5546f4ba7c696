"""`phantora agent`: the part of one host in a run on several. `phantora run --hosts` starts it."""

import argparse
import json
import sys
import traceback

from phantora_py.hosts.job import BEGUN, read_job
from phantora_py.runs.share import run_share
from sim_server.errors import InternalError, PhantoraError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options: there are none. The job comes on the standard input, one line of JSON;
    the end of the input is the end of the run.
    """
    parser.description = (
        "Run the ranks of one host in a run on several hosts. Not for you to call: `phantora run "
        "--hosts` starts it there, and sends it its job on the standard input."
    )


def run(_options: argparse.Namespace) -> int:
    """Serves the ranks of this host; returns the exit code. What the first host does not know of
    the end is the last line of the standard output.
    """
    try:
        job = read_job(sys.stdin.readline())
        outcome, is_news = run_share(job, sys.stdin, lambda: print(BEGUN, flush=True))
    except PhantoraError as error:
        return _report(error.exit_code, str(error))
    except Exception as error:  # the first host tells the user
        traceback.print_exception(error)
        last = traceback.format_exception_only(error)[-1].strip()
        return _report(InternalError.exit_code, f"this is a fault of phantora: {last}")
    return _report(outcome.exit_code, outcome.message) if is_news else 0


def _report(exit_code: int, message: str) -> int:
    print(json.dumps({"exit_code": exit_code, "message": message}), flush=True)
    return exit_code
