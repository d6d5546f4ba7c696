"""Commands that the documentation shows exist, with the options that it shows.

Some are run (tests/e2e/test_commands_of_pages.py); others take hours, hardware, or files
that only their reader has.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from phantora_py.cli.commands import VERBS, make_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "containers" / "README.md", *ROOT.glob("docs/**/*.md")]
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
# Options of another program that are values of ours.
VALUE = re.compile(r"(--flag|--try)[ =]--?[\w-]+")
COMMAND = re.compile(r"(?:\$ )?(?:[A-Z][A-Z0-9_]*=\S* )*((?:phantora [a-z]|python \w+/).*)")


SYNOPSIS = re.compile(r"[][|]|\.\.\.| [A-Z ]+\{|, [a-z]")


def shown(page: Path) -> Iterator[tuple[str, bool]]:
    """Commands in indented blocks, without what is said beside them, and those within sentences;
    whether they can be typed as they are, but for the names of files.
    """
    text = page.read_text(encoding="utf-8")
    for line in re.sub(r"\\\n +", "", text).splitlines():
        if line.startswith("    ") and (found := COMMAND.fullmatch(line[4:])):
            command = re.split(r" {3,}(?!-)", found[1])[0]
            yield command, SYNOPSIS.search(command) is None
    yield from ((one, False) for one in re.findall(r"`(phantora [a-z][^`]*)`", text))


ALL = sorted({(str(page.relative_to(ROOT)), *one) for page in PAGES for one in shown(page)})


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Of a parser and the parsers below it."""
    known: set[str] = set()
    for action in parser._actions:
        known.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            known.update(*map(options_of, action.choices.values()))
    return known


def options_of_verb(verb: str) -> set[str]:
    """Of `phantora VERB`, whose parser is filled when it is used."""
    (verbs,) = (
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    parser = verbs.choices[verb]
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    return options_of(parser)


def check_script(command: str) -> None:
    """`python FILE ...`: file or folder is there, and it, its neighbours or those of its folder
    know the options.
    """
    _, script, *words = command.split()
    path = ROOT / script
    if path.is_dir():
        path /= "__main__.py"
    assert path.is_file(), script
    folders = (path.parent, path.parent.parent)
    texts = [one.read_text(encoding="utf-8") for at in folders for one in at.glob("*.py")]
    for option in filter(OPTION.fullmatch, words):
        assert any(f'"{option}"' in text for text in texts), option


@pytest.mark.parametrize(("page", "command", "is_whole"), ALL)
def test_command(page: str, command: str, is_whole: bool) -> None:
    """Its verb and options are known; one that is no synopsis is understood as it stands."""
    ours, _, program = command.partition(" -- ")
    if program.startswith("python examples/"):
        check_script(program)
    if ours.startswith("python "):
        check_script(ours)
        return
    verb = ours.split()[1]
    assert verb in VERBS, page
    unknown = set(OPTION.findall(VALUE.sub(r"\1", ours))) - options_of_verb(verb)
    assert not unknown, page
    if is_whole:
        make_parser().parse_args(shlex.split(ours, comments=True)[1:])


def test_pages_show_commands() -> None:
    """Of all verbs; otherwise nothing was looked at."""
    assert {command.split()[1] for _, command, _ in ALL if command.startswith("phantora")} == set(
        VERBS
    )
