"""`phantora serve`: runs only the simulation server, for agents elsewhere."""

import argparse
import secrets
import sys
from pathlib import Path

from sim_server.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora serve`."""
    parser.add_argument(
        "--listen",
        default="127.0.0.1:50051",
        metavar="ADDRESS",
        help="unix:PATH or HOST:PORT; nobody else can reach the default, the loopback interface",
    )
    parser.add_argument("--agents", type=int, default=1, metavar="N", help="hosts that will join")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="default: a new token")


def run(options: argparse.Namespace) -> int:
    """Serves one run; returns its exit code."""
    from sim_server.service import serve  # noqa: PLC0415 - it loads the engine

    if options.agents < 1:
        raise UsageError("--agents takes a number of at least 1.")
    if options.token_file is None:
        token = secrets.token_hex(16)
        print(f"phantora serve on {options.listen}, --token {token}", file=sys.stderr)
    else:
        try:
            token = options.token_file.read_text(encoding="ascii").strip()
        except OSError as error:
            raise UsageError(f"The token file cannot be read: {error}") from error
    return serve(options.listen, token, options.agents)
