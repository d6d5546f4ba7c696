"""The largest value of a flag with which a command fits, and what would make more fit: each tried.

Runs are those of a sweep, with its directory of results: what lies there is not run again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from phantora_py.advice.json_types import Fit, Fitted, Refusal
from phantora_py.advice.largest import Attempt, largest
from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.sections import memory
from phantora_py.sweep.engines.engine import Engine
from phantora_py.sweep.plan import Configuration
from phantora_py.sweep.results import Result, Results
from phantora_py.sweep.runner import run_all
from sim_server.errors import RankFailed, UsageError

SCHEMA = 1
AS_GIVEN = "as given"
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
EXPANDABLE = "expandable_segments:True"


@dataclass(frozen=True)
class Way:
    """A condition under which values are tried."""

    name: str
    words: tuple[str, ...] = ()
    """That are added to the command."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Tries:
    """Values of a flag of a command, under one way."""

    command: Sequence[str]
    flag: str
    way: Way
    options: Mapping[str, str]
    """Of `phantora run`."""
    run: Callable[[Configuration], Result]
    tell: Callable[[str], None]
    results: dict[int, Result] = field(default_factory=dict)

    def configuration(self, value: int) -> Configuration:
        """The run of a value."""
        words = (*with_value(self.command, self.flag, value), *self.way.words)
        name = f"{self.way.name}, {self.flag} {value}"
        return Configuration(name, words, self.options, self.way.environment, {})

    def attempt(self, value: int) -> Attempt:
        """Runs it. Raises: RankFailed if it fails for another reason than memory."""
        result = self.run(self.configuration(value))
        self.results[value] = result
        if result.data is None or (result.exit_code and not result.out_of_memory):
            raise RankFailed(
                f"{self.flag} {value} ({self.way.name}) failed, and not for want of memory: "
                f"{result.message}"
            )
        found = memory.make(Findings(RunData(result.data)))
        fits = bool(found["fits"])
        end = "fits" if fits else "does not fit" if result.exit_code else "fits with retries only"
        when = "before" if result.cached else f"in {result.wall_s:.1f} s"
        self.tell(f"{result.name}   {end}   ({when})")
        return Attempt(value, fits, max(found["peak_device_bytes"]), found["capacity_bytes"])


def with_value(command: Sequence[str], flag: str, value: int) -> list[str]:
    """The command with this value of the flag, which is added if it is not there."""
    words = list(command)
    for position, word in enumerate(words):
        if word == flag and position + 1 < len(words):
            return [*words[: position + 1], str(value), *words[position + 2 :]]
        if word.startswith(f"{flag}="):
            return [*words[:position], f"{flag}={value}", *words[position + 1 :]]
    return [*words, flag, str(value)]


def value_of(command: Sequence[str], flag: str) -> int:
    """Where to begin. Raises: UsageError if the flag has a value that is no whole number."""
    for position, word in enumerate(command):
        name, equals, text = word.partition("=")
        if name != flag:
            continue
        if not equals:
            text = command[position + 1] if position + 1 < len(command) else ""
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(
                f"--flag {flag}: its value {text!r} is no whole number of at least 1, so that "
                "there is no largest one."
            )
        return int(text)
    return 1


def ways(tries: Sequence[str], environment: Mapping[str, str]) -> list[Way]:
    """As given, with expandable segments unless they are on, with the words of each of `tries`, and
    with all of these together.
    """
    found = [Way(AS_GIVEN)]
    given = environment.get(ALLOCATOR, "")
    if "expandable_segments:True" not in given:
        setting = ",".join(filter(None, [given, EXPANDABLE]))
        found.append(Way("expandable segments", environment={ALLOCATOR: setting}))
    found += [Way(text, tuple(text.split())) for text in tries]
    if len(found) > 2:
        words = tuple(word for way in found for word in way.words)
        together: dict[str, str] = {}
        for way in found:
            together |= way.environment
        found.append(Way("all of these", words, together))
    return found


def fit(
    command: Sequence[str],
    flag: str,
    *,
    found_ways: Sequence[Way],
    options: Mapping[str, str],
    most: int,
    run: Callable[[Configuration], Result],
    tell: Callable[[str], None] = lambda _: None,
) -> Fit:
    """Tries all ways. `tell` is told how each try ended.

    Raises: RankFailed if a run fails for another reason than memory.
    """
    start = value_of(command, flag)
    tried: list[Fitted] = []
    capacity_bytes = 0
    likely: int | None = None
    for way in found_ways:
        tries = Tries(command, flag, way, options, run, tell)
        attempt = functools.cache(tries.attempt)
        found = largest(attempt, start, most, likely)
        capacity_bytes = attempt(found.fits or 1).capacity_bytes
        tried.append(_fitted(tries, found.fits, found.refused))
        start, likely = found.refused or start, found.fits  # other ways are to make more fit
    return {
        "schema": SCHEMA,
        "flag": flag,
        "capacity_bytes": capacity_bytes,
        "tried": tried,
        "best": _best(tried),
    }


def run_one(results: Results, engine: Engine) -> Callable[[Configuration], Result]:
    """Runs a configuration, unless its result is there."""

    def run(configuration: Configuration) -> Result:
        (result,) = run_all([configuration], results, engine, retry=False, tell=lambda *_: None)
        return result

    return run


def _fitted(tries: Tries, fits: int | None, refused: int | None) -> Fitted:
    command = tries.configuration(fits or 1).command
    made: Fitted = {
        "name": tries.way.name,
        "largest": fits,
        "peak_bytes": None,
        "iteration_ns": None,
        "kinds": None,
        "refusal": None if refused is None else _refusal(refused, tries.results[refused]),
        "runs": len(tries.results),
        "command": list(command),
        "environment": dict(tries.way.environment),
    }
    if fits is not None and (path := tries.results[fits].data) is not None:
        found = Findings(RunData(path))
        summary = memory.make(found)
        made["peak_bytes"] = max(summary["peak_device_bytes"])
        made["kinds"] = summary["kinds"]
        made["iteration_ns"] = found.median_ns
    return made


def _refusal(value: int, result: Result) -> Refusal | None:
    failures = memory.make(Findings(RunData(result.data)))["out_of_memory"] if result.data else []
    if not failures:
        return None
    first = failures[0]
    return {
        "value": value,
        "rank": first["rank"],
        "asked_bytes": first["asked_bytes"],
        "site": first["site"],
        "went_on": result.exit_code == 0,
    }


def _best(tried: Sequence[Fitted]) -> str | None:
    rates = {
        one["name"]: one["largest"] / one["iteration_ns"]
        for one in tried
        if one["largest"] and one["iteration_ns"]
    }
    return max(rates, key=lambda name: rates[name]) if rates else None
