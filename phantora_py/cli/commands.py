"""The verbs, and what a verb is."""

import argparse
import contextlib
import difflib
import importlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol, cast

from phantora_py import __version__
from sim_server.errors import UsageError


class Command(Protocol):
    """A module that carries out one verb."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the verb's options."""

    def run(self, options: argparse.Namespace) -> int:
        """Carries the verb out; returns the exit code. Raises: PhantoraError."""


# Module and help text: the others need not be imported to run one.
VERBS = {
    "run": ("phantora_py.cli.run", "run a training command on a virtual cluster"),
    "exec": ("phantora_py.cli.exec", "run one program on one virtual GPU, without a report"),
    "resimulate": (
        "phantora_py.cli.resimulate",
        "simulate a recorded run again, e.g. on another cluster",
    ),
    "replay": (
        "phantora_py.cli.replay",
        "make a benchmark from execution traces, run it, score it",
    ),
    "bench": ("phantora_py.cli.bench", "time collectives on a virtual cluster, as nccl-tests does"),
    "calibrate": ("phantora_py.cli.calibrate", "fit a cluster's constants to nccl-tests logs"),
    "calibrate-host": (
        "phantora_py.cli.calibrate_host",
        "fit the times of --host-time counted to this machine's processor",
    ),
    "report": ("phantora_py.cli.report", "show or export the data file of a run"),
    "compare": ("phantora_py.cli.compare", "compare runs: figures, and what changed"),
    "sweep": ("phantora_py.cli.sweep", "run many configurations of a command and compare them"),
    "plan": ("phantora_py.cli.plan", "search for a sharding plan of embedding tables"),
    "search": ("phantora_py.cli.search", "find the best of many configurations"),
    "fit": ("phantora_py.cli.fit", "find the largest batch that fits, and what makes more fit"),
    "profile": (
        "phantora_py.cli.profile",
        "measure kernels that a cache lacks, on this machine's GPU",
    ),
    "cache": (
        "phantora_py.cli.cache",
        "list, merge, check or trim a cache of measured kernel times",
    ),
    "cluster": ("phantora_py.cli.cluster", "list the built-in clusters, or show one"),
    "coverage": ("phantora_py.coverage", "list which CUDA calls are modelled"),
    "doctor": ("phantora_py.cli.doctor", "check what phantora can use on this machine"),
    "agent": ("phantora_py.cli.agent", "run the ranks of one host; `run --hosts` starts this"),
    "serve": ("phantora_py.cli.serve", "run only the simulation server"),
    "completion": ("phantora_py.cli.completion", "print a script for shell completion"),
}


# Python before 3.12 has quotes around the choices.
_WRONG_CHOICE = re.compile(r"(argument .*): invalid choice: '(.*)' \(choose from (.*)\)")
_WORD = re.compile(r"[\w.-]+")
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


class Parser(argparse.ArgumentParser):
    """Reports errors in the way of all others."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            message += ". The command to run, with its own options, follows a '--'"
        elif choice := _WRONG_CHOICE.match(message):
            argument, typed, choices = choice.groups()
            known = _WORD.findall(choices)
            if near := difflib.get_close_matches(typed, known, n=1):
                message = f"{argument}: there is no {typed!r}; did you mean {near[0]!r}? "
                message += f"There are {', '.join(known)}"
        stop = "" if message.endswith("?") else "."
        raise UsageError(f"{message}{stop} See: {self.prog} --help")

    def check_options(self, left: Sequence[str]) -> None:
        """Of what no argument takes, names the option that is meant. Raises: UsageError."""
        known = [name for action in self._actions for name in action.option_strings]
        for word in left:
            typed = word.partition("=")[0]
            if near := difflib.get_close_matches(typed, known, n=1):
                self.error(f"there is no option {typed}; did you mean {near[0]}?")


class _LazyParser(Parser):
    """A verb's parser; imports the verb's module when that verb is used."""

    module = ""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        with _no_blas_threads():
            command = cast(Command, importlib.import_module(self.module))
        command.add_arguments(self)
        args = _joined(args, getattr(command, "OPTION_VALUES", ()))
        self.set_defaults(run=command.run)
        found, left = super().parse_known_args(args, namespace)
        self.check_options([word for word in left if word.startswith("--")])
        return found, left


@contextlib.contextmanager
def _no_blas_threads() -> Iterator[None]:
    """Keeps NumPy's OpenBLAS from starting a thread for each core when it is imported: no verb has
    use for them, and a process without can be forked. Programs get the variable as it was.
    """
    before = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_BLAS_THREADS]
        else:
            os.environ[_BLAS_THREADS] = before


def _joined(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """`--flag --batch-size` as `--flag=--batch-size`, which argparse takes for a value."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in options:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def sentence(help_text: str) -> str:
    """A verb's help text as one: GPU and CUDA stay as they are."""
    return f"{help_text[0].upper()}{help_text[1:]}."


def make_parser(complete: bool = False) -> Parser:
    """The parser of the whole command line; the namespace it makes has the verb's `run`.

    `complete`: with the options of all verbs, for who only looks at them.
    """
    parser = Parser(
        prog="phantora",
        description="Run an unchanged PyTorch training command on a virtual GPU cluster.",
    )
    parser.add_argument("--version", action="version", version=f"phantora {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=_LazyParser)
    for name, (module, help_text) in VERBS.items():
        verb = verbs.add_parser(name, help=help_text, description=sentence(help_text))
        verb.module = module
        if complete:
            cast(Command, importlib.import_module(module)).add_arguments(verb)
    return parser
