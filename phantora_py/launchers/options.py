"""One way to read the options of every launcher.

A launcher has a table: each option is honoured, ignored for a stated reason, or refused. An option
that the table lacks is an error that names the nearest one.
"""

import difflib
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sim_server.errors import UsageError


class Effect(enum.Enum):
    """What becomes of an option."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Option:
    """One option of a launcher: how many values follow it, other spellings, and the reason why it
    is ignored or refused. `optional`: its value comes after `=` or not at all.
    """

    values: int = 1
    effect: Effect = Effect.HONOURED
    reason: str = ""
    spellings: tuple[str, ...] = ()
    optional: bool = False


def honoured(*spellings: str, values: int = 1) -> Option:
    """An option whose meaning is kept."""
    return Option(values, spellings=spellings)


def ignored(reason: str, *spellings: str, values: int = 1, optional: bool = False) -> Option:
    """An option that changes nothing in a simulated launch, for this reason."""
    return Option(values, Effect.IGNORED, reason, spellings, optional)


def refused(reason: str, *spellings: str, values: int = 1) -> Option:
    """An option that cannot be simulated, for this reason."""
    return Option(values, Effect.REFUSED, reason, spellings)


@dataclass(frozen=True)
class Table:
    """The options of one launcher, by their long names without dashes.

    `abbreviates`: a beginning that only one has will do. `dashes`: what comes before a long name;
    both `-` and `--` for launchers that tell them not apart. `argparse`: the launcher is a Python
    program, whose parser drops the first `--`, also directly after the program's name.
    """

    launcher: str
    options: Mapping[str, Option]
    abbreviates: bool = True
    dashes: tuple[str, ...] = ("--",)
    argparse: bool = False


@dataclass
class Given:
    """What a command line gives: values by name, in their order, and what follows the options."""

    table: Table
    values: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    rest: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str) -> str | None:
        """The last value of an option, or None."""
        found = self.values.get(name)
        return found[-1][0] if found and found[-1] else None

    def all(self, name: str) -> list[tuple[str, ...]]:
        """The values of an option that may be repeated."""
        return self.values.get(name, [])

    def number(self, name: str, least: int = 0) -> int | None:
        """The last value as a number. Raises: UsageError if it is none, or is less."""
        text = self.text(name)
        return None if text is None else number(f"{self.table.launcher} --{name}", text, least)

    def notes(self) -> tuple[str, ...]:
        """A sentence for each option that is ignored."""
        options = self.table.options
        return tuple(
            f"{self.table.launcher} --{name} is ignored: {options[name].reason}"
            for name in self.values
            if options[name].effect is Effect.IGNORED
        )

    def refuse(self) -> None:
        """Raises: UsageError if an option was given that cannot be simulated."""
        for name in self.values:
            option = self.table.options[name]
            if option.effect is Effect.REFUSED:
                raise UsageError(
                    f"{self.table.launcher} --{name} cannot be simulated: {option.reason}."
                )


def number(what: str, text: str, least: int = 0) -> int:
    """A number that the user gave for `what`. Raises: UsageError."""
    if not text.strip().isdecimal() or int(text) < least:
        bound = f" of at least {least}" if least else ""
        raise UsageError(f"{what} takes a number{bound}, not {text!r}.")
    return int(text)


def read_options(arguments: Sequence[str], table: Table) -> Given:
    """Takes the options off the front of `arguments`; what follows is the program.

    Raises: UsageError for an option that the table lacks, or a value that is missing.
    """
    given = Given(table)
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            position += 1
            break
        if not argument.startswith("-") or argument == "-":
            break
        name, value = _name_and_value(argument, table)
        option = table.options[name]
        position += 1
        values: tuple[str, ...] = () if value is None else (value,)
        if option.values == 0 and values and not option.optional:
            raise UsageError(f"{table.launcher} --{name} takes no value, but was given {value!r}.")
        missing = option.values - len(values)
        if missing > 0:
            values += tuple(arguments[position : position + missing])
            position += missing
        if len(values) < option.values:
            raise UsageError(f"{table.launcher} {argument} needs a value.")
        given.values.setdefault(name, []).append(values)
    rest = list(arguments[position:])
    if table.argparse and rest[1:2] == ["--"] and arguments[position - 1 : position] != ["--"]:
        del rest[1]
    given.rest = tuple(rest)
    return given


def _name_and_value(argument: str, table: Table) -> tuple[str, str | None]:
    """`--nproc_per_node=8` as ("nproc-per-node", "8"), and `-N2` as ("nodes", "2")."""
    text, separator, value = argument.partition("=")
    for name, option in table.options.items():
        if text in option.spellings:
            return name, value if separator else None
    short = argument[:2]
    for name, option in table.options.items():
        # A letter and its value in one word.
        if short in option.spellings and short != "--" and (option.values == 1 or option.optional):
            return name, argument[2:].removeprefix("=")
    dashes = "--" if argument.startswith("--") else "-"
    wanted = text[len(dashes) :].replace("_", "-")
    matches = []
    if dashes in table.dashes:
        if wanted in table.options:
            matches = [wanted]
        elif table.abbreviates and wanted:
            matches = [name for name in table.options if name.startswith(wanted)]
    if len(matches) == 1:
        return matches[0], value if separator else None
    if matches:
        names = ", ".join(f"--{name}" for name in matches)
        raise UsageError(f"{table.launcher} {text} may mean {names}.")
    nearest = difflib.get_close_matches(wanted, table.options, n=1, cutoff=0.4)
    hint = f" Did you mean --{nearest[0]}?" if nearest else ""
    raise UsageError(f"{table.launcher} has no option {text} that phantora knows.{hint}")
