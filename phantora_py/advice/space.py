"""A space to search: a sweep's file with constraints, an objective and cheap values.

`[grid]`, `[fixed]` and `[[configuration]]` are those of `phantora sweep`. `[search]` has objective,
budget, price, per_iteration and `where`, a list of expressions that have to be true; `[define]` has
names for these. Each `[[cheap]]` has values that stand in for a configuration's own, the cheapest
first; a text may have placeholders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phantora_py.advice.expressions import evaluate
from phantora_py.advice.objective import FORMS, Budget, Objective, parse_budget, parse_objective
from phantora_py.compare.quantities import Prices, parse_prices
from phantora_py.sweep.plan import Configuration, configured, flat, plan_of
from sim_server.errors import UsageError
from sim_server.files.toml_file import read_toml

_OWN = ("search", "define", "cheap")
_FOLDING = ("run.fold", "run.mesh", "run.witness")
_SEARCH = ("objective", "budget", "price", "per_iteration", "where")


@dataclass(frozen=True)
class Space:
    """What is to be searched."""

    configurations: list[Configuration]
    """Those that keep to the constraints."""
    left_out: int
    """Those that do not."""
    cheap: list[Mapping[str, Any]]
    objective: Objective
    budget: Budget
    prices: Prices
    per_iteration: str | None
    command: tuple[str, ...]

    def cheaper(self, configuration: Configuration, rung: int) -> Configuration:
        """A configuration with the cheap values of a rung, from 0."""
        cheap = {
            name: configuration.fill(value, "[[cheap]]") if isinstance(value, str) else value
            for name, value in self.cheap[rung].items()
        }
        values = {**configuration.values, **cheap}
        fold = str(values.get("run.fold", ""))
        if fold.isdecimal() and int(fold) >= configuration.ranks:  # it would leave no rank out
            values = {name: one for name, one in values.items() if name not in _FOLDING}
        return configured(f"{configuration.name} (cheap {rung + 1})", self.command, values)


def read_space(path: Path, command: Sequence[str]) -> Space:
    """Raises: UsageError for a space that says nothing, or contradicts itself."""
    table = read_toml(path, "space")
    search = _table(table.get("search", {}), f"{path}: [search]")
    for key in search:
        if key not in _SEARCH:
            raise UsageError(f"{path}: [search] has no '{key}'; it has {', '.join(_SEARCH)}.")
    if "objective" not in search:
        raise UsageError(f"{path}: [search] has no objective; write {FORMS}.")
    rest = {key: value for key, value in table.items() if key not in _OWN}
    everything = plan_of(rest, path, command)
    kept = _kept(path, everything, search, _table(table.get("define", {}), f"{path}: [define]"))
    objective = parse_objective(search["objective"])
    prices = parse_prices([str(search["price"])] if "price" in search else [])
    if objective.kind == "cost" and prices.other is None:
        raise UsageError(f"{path}: the objective '{objective.text}' needs a price in [search].")
    return Space(
        configurations=kept,
        left_out=len(everything) - len(kept),
        cheap=_cheap(path, table.get("cheap", []), everything),
        objective=objective,
        budget=parse_budget(search["budget"]) if "budget" in search else Budget(),
        prices=prices,
        per_iteration=search.get("per_iteration"),
        command=tuple(command),
    )


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} is not a table.")
    return value


def _kept(
    path: Path,
    everything: Sequence[Configuration],
    search: Mapping[str, Any],
    define: Mapping[str, Any],
) -> list[Configuration]:
    """Raises: UsageError if nothing is left."""
    where = search.get("where", [])
    constraints = where if isinstance(where, list) else [where]
    kept = []
    for one in everything:
        values = dict(one.values)
        for name, text in define.items():
            values[name] = evaluate(str(text), values, f"{path}: [define] {name}")
        if all(evaluate(str(text), values, f"{path}: where") for text in constraints):
            kept.append(one)
    if not kept:
        raise UsageError(
            f"{path}: none of {len(everything)} configurations keeps to where = {constraints}: "
            "the space contradicts itself."
        )
    return kept


def _cheap(
    path: Path, tables: object, everything: Sequence[Configuration]
) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for number, one in enumerate(tables if isinstance(tables, list) else [tables], 1):
        values = flat(one, f"{path}: [[cheap]] {number}")
        for name in values:
            if not name.startswith("run.") and any(name not in c.values for c in everything):
                raise UsageError(
                    f"{path}: [[cheap]] {number} has '{name}', which is no value of the space."
                )
        found.append(values)
    return found
