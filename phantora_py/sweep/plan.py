"""The configurations of a sweep: from its TOML file and the command with placeholders.

    [fixed]           values of every configuration
    [grid]            lists of values, all combinations of which are run
    [[configuration]] one more each, with a `name` if it likes

Each may have the tables `run`, options of `phantora run`, and `env`, the environment; everything
else is a value for the placeholder of that name.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.files.toml_file import read_toml

# A run takes seconds: these take a day (assumed to be a mistake beyond).
_MOST_COMBINATIONS = 10_000

Values = dict[str, Any]
"""By name; those of the tables `run` and `env` with that before a point."""

RUN_OPTIONS = (
    *("cluster", "ranks", "gpus", "nodes", "gpus-per-node", "fold", "mesh", "apart", "witness"),
    *("host-time", "host-gaps", "cpu", "host-tensors", "values-threshold", "cache", "network"),
    *("expert-load", "lookups", "unsupported", "until-steady", "iteration", "stall-limit"),
    *("memory-limit", "memory-kinds", "modules"),
)
"""Of `phantora run`: those that a sweep may set."""

RUN_FLAGS = ("until-steady", "memory-kinds", "modules")
"""Of these: what is `true` or `false`."""

_RESIMULATE = ("phantora", "resimulate")

# `{name}`; doubled braces are braces, and others are left alone.
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.-]*)\}")


@dataclass(frozen=True)
class Configuration:
    """One run that is to be."""

    name: str
    command: tuple[str, ...]
    run: Mapping[str, str]
    environment: Mapping[str, str]
    values: Mapping[str, Any]
    """What placeholders stand for."""

    @property
    def resimulates(self) -> bool:
        """Whether the command simulates a recorded run again, instead of being one to run."""
        return self.command[:2] == _RESIMULATE

    @property
    def ranks(self) -> int:
        """How much of this machine it takes against others: its ranks, 1 if it does not say."""
        return max(1, *(int(self.run.get(option, "1")) for option in ("ranks", "gpus")))

    def fill(self, text: str, where: str) -> str:
        """`text` with its placeholders replaced. Raises: UsageError."""
        return _fill(text, self.values, f"{where} of configuration '{self.name}'")


def option_words(run: Mapping[str, str]) -> list[str]:
    """Options of `phantora run` as words of its command line."""
    return [
        f"--{name}" if name in RUN_FLAGS else f"--{name}={value}"
        for name, value in run.items()
        if name not in RUN_FLAGS or value == "true"
    ]


def read_plan(path: Path, command: Sequence[str]) -> list[Configuration]:
    """The configurations, in the order of the file. Raises: UsageError."""
    return plan_of(read_toml(path, "sweep"), path, command)


def plan_of(table: Mapping[str, Any], path: Path, command: Sequence[str]) -> list[Configuration]:
    """Likewise, of the tables of the file at `path`. Raises: UsageError."""
    for key in table:
        if key not in ("fixed", "grid", "configuration"):
            raise UsageError(
                f"{path}: unknown table '{key}'; a sweep has [fixed], [grid] and [[configuration]]."
            )
    fixed = flat(table.get("fixed", {}), f"{path}: [fixed]")
    named: list[tuple[str | None, Values]] = [
        (None, fixed | values) for values in _grid(table.get("grid", {}), path)
    ]
    for number, one in enumerate(table.get("configuration", []), 1):
        values = flat(one, f"{path}: [[configuration]] {number}")
        named.append((values.pop("name", None), fixed | values))
    if not named:
        raise UsageError(
            f"{path} has no configuration: give [grid] lists that are not empty, or "
            "[[configuration]] tables."
        )
    _check_used(path, command, [values for _, values in named])
    labels = _labels(named)
    return [
        configured(name, command, values) for name, (_, values) in zip(labels, named, strict=True)
    ]


def flat(table: object, where: str) -> Values:
    """The values of a table of the file. Raises: UsageError."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} is not a table.")
    values: Values = {}
    for key, value in table.items():
        if key in ("run", "env"):
            if not isinstance(value, Mapping):
                raise UsageError(f"{where}: '{key}' is a table; write its keys under it.")
            values |= {f"{key}.{name}": one for name, one in value.items()}
        elif isinstance(value, Mapping):
            raise UsageError(f"{where}: '{key}' is a table; only 'run' and 'env' are.")
        else:
            values[key] = value
    for name in values:
        option = name.removeprefix("run.")
        if name.startswith("run.") and option not in RUN_OPTIONS:
            raise UsageError(
                f"{where}: '{option}' is no option that a sweep sets; {_near(option, RUN_OPTIONS)}"
            )
    return values


def _grid(table: object, path: Path) -> Iterator[Values]:
    """All combinations; the last key changes fastest."""
    grid = flat(table, f"{path}: [grid]")
    for name, values in grid.items():
        if not isinstance(values, list):
            raise UsageError(f"{path}: [grid] {name} is not a list of values; write [{values!r}].")
    count = math.prod(map(len, grid.values()))
    if count > _MOST_COMBINATIONS:
        raise UsageError(
            f"{path}: [grid] has {count:,} combinations; {_MOST_COMBINATIONS:,} are the most."
        )
    if grid:
        for chosen in itertools.product(*grid.values()):
            yield dict(zip(grid, chosen, strict=True))


def _check_used(path: Path, command: Sequence[str], configurations: Sequence[Values]) -> None:
    """Raises: UsageError for a value without a placeholder: it would change nothing."""
    used = {name for word in command for name in _PLACEHOLDER.findall(word)}
    for name in dict.fromkeys(itertools.chain(*configurations)):
        if name not in used and not name.startswith(("run.", "env.")):
            raise UsageError(
                f"{path} has values for '{name}', and the command has no {{{name}}}. Options of "
                "phantora run go under 'run', variables under 'env'."
            )


def _labels(named: Sequence[tuple[str | None, Values]]) -> list[str]:
    """Given names, else the values in which configurations differ. Raises: UsageError."""
    everything = [values for _, values in named]
    keys = dict.fromkeys(itertools.chain(*everything))
    differing = [
        key for key in keys if any(one.get(key) != everything[0].get(key) for one in everything)
    ]
    labels = []
    for name, values in named:
        parts = (
            f"{key.removeprefix('run.').removeprefix('env.')}={_text(values[key])}"
            for key in differing
            if key in values
        )
        labels.append(str(name) if name is not None else " ".join(parts) or "the only one")
    double = next((label for label in labels if labels.count(label) > 1), None)
    if double is not None:
        raise UsageError(f"There are two configurations '{double}'; they must differ, or be named.")
    return labels


def configured(name: str, command: Sequence[str], values: Values) -> Configuration:
    """The run of a command with these values. Raises: UsageError."""
    where = f"the command of configuration '{name}'"
    words = [filled for word in command for filled in _words(word, values, where)]

    def of(table: str) -> dict[str, str]:
        prefix = f"{table}."
        return {
            key.removeprefix(prefix): _text(value)
            for key, value in values.items()
            if key.startswith(prefix)
        }

    configuration = Configuration(name, tuple(words), of("run"), of("env"), values)
    for option in RUN_FLAGS:
        if configuration.run.get(option, "true") not in ("true", "false"):
            raise UsageError(f"configuration '{name}': '{option}' is true or false.")
    for option in ("ranks", "gpus"):
        if not configuration.run.get(option, "1").isdecimal():
            raise UsageError(f"configuration '{name}': '{option}' is a number.")
    if configuration.resimulates and (configuration.run or configuration.environment):
        raise UsageError(
            f"configuration '{name}': a resimulation takes no options of phantora run and no "
            "environment; its own, as --cluster and --env, stand in the command."
        )
    return configuration


def _words(word: str, values: Values, where: str) -> list[str]:
    """A word that is a placeholder alone may stand for several words, or for none."""
    match = _PLACEHOLDER.fullmatch(word)
    value = values.get(match[1]) if match and match[1] else None
    if isinstance(value, list):
        return [_text(one) for one in value]
    return [_fill(word, values, where)]


def _fill(text: str, values: Mapping[str, Any], where: str) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name not in values:
            raise UsageError(f"{where} has no value for {{{name}}}; {_near(name, list(values))}")
        if isinstance(values[name], list):
            raise UsageError(
                f"{where}: {{{name}}} is a list of words, and stands within a word: {text}"
            )
        return _text(values[name])

    return _PLACEHOLDER.sub(replace, text)


def _text(value: object) -> str:
    """As TOML writes it: a flag is `true`."""
    if isinstance(value, list):
        return " ".join(map(_text, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known) or 'none'}."
