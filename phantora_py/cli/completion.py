"""`phantora completion`: what makes a shell complete phantora's verbs, options and files."""

import argparse

from phantora_py.cli import commands
from sim_server.errors import UsageError

_SHELLS = ("bash", "zsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of `phantora completion`."""
    parser.add_argument("shell", choices=_SHELLS, help="which shell's script is printed")


def run(options: argparse.Namespace) -> int:
    """Prints the script. Raises: UsageError without shtab, which makes it."""
    try:
        import shtab  # noqa: PLC0415 - an extra of the installation
    except ImportError:
        raise UsageError(
            "the Python package shtab is missing: pip install 'phantora[completion]'"
        ) from None
    parser = commands.make_parser(complete=True)
    for one in _parsers(parser):
        for action in one._actions:  # there is no public way to list them
            if action.metavar and "FILE" in str(action.metavar):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return 0


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """This one, and those of its verbs."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                found += _parsers(one)
    return found
