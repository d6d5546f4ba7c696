"""Statistics of lookups as JSON (docs/recommendation.md), checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim_server.errors import UsageError
from sim_server.lookups.distributions import shifted_zipf, uniform, zipf
from sim_server.lookups.histogram import ReuseHistogram
from sim_server.lookups.working_set import Lookups

Spec = Mapping[str, Any]

# More than any count (assumed).
_MOST = 1e15
# Of a steeper distribution nothing is left beyond the first row.
_MOST_EXPONENT = 100


def read_lookups(spec: Spec | None, rows: int, where: str) -> Lookups:
    """The lookups that `spec` describes, of a table of so many rows; uniform if there is none.

    `where` names the table in messages. Raises: UsageError.
    """
    if spec is None:
        return uniform(rows, sound=False)
    if not isinstance(spec, Mapping):
        raise UsageError(f"{where}: lookups must be an object with a kind, not {spec!r}")
    kind = spec.get("kind")
    maker = _KINDS.get(str(kind))
    if maker is None:
        raise UsageError(f"{where}: there are no lookups of kind {kind!r}; {', '.join(_KINDS)}")
    known = _FIELDS[str(kind)]
    if unknown := sorted(set(spec) - {"kind", *known}):
        raise UsageError(f"{where}: lookups of kind {kind} have no {unknown[0]!r}; {known}")
    try:
        return maker(spec, rows)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def read_histogram(spec: Spec) -> ReuseHistogram:
    """The histogram of a spec of that kind. Raises: UsageError."""
    masses = spec.get("lookup_shares")
    return ReuseHistogram(
        number(spec, "lookups", 1),
        number(spec, "distinct", 1),
        numbers(spec, "shares"),
        None if masses is None else numbers(spec, "lookup_shares"),
    )


def number(
    spec: Spec, key: str, least: float, default: float | None = None, most: float = _MOST
) -> float:
    """A number of a spec, from `least` to `most`. Raises: UsageError."""
    value = spec.get(key, default)
    if value is None:
        raise UsageError(f"{key} is missing")
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not value >= least:
        raise UsageError(f"{key} must be a number, at least {least:g}, not {value!r}")
    if value > most:
        raise UsageError(f"{key} must be at most {most:g}")
    return float(value)


def numbers(spec: Spec, key: str) -> tuple[float, ...]:
    """A list of numbers of a spec, none below 0. Raises: UsageError."""
    values = spec.get(key)
    if not isinstance(values, list):
        raise UsageError(f"{key} must be a list of numbers, not {values!r}")
    return tuple(number({key: value}, key, 0) for value in values)


def _zipf(spec: Spec, rows: int) -> Lookups:
    return zipf(rows, number(spec, "exponent", 0, most=_MOST_EXPONENT))


def _tbe(spec: Spec, rows: int) -> Lookups:
    hitters = numbers(spec, "heavy_hitters") if "heavy_hitters" in spec else ()
    if sum(hitters) > 1 or len(hitters) > rows:
        raise UsageError(
            f"{len(hitters)} heavy_hitters with a sum of {sum(hitters):g} do not fit a table of "
            f"{rows} rows: they are probabilities"
        )
    if len(hitters) == rows and not sum(hitters):
        raise UsageError("heavy_hitters are all rows of the table, and none has a probability")
    exponent = number(spec, "s", 0, most=_MOST_EXPONENT)
    return shifted_zipf(rows, exponent, number(spec, "q", 0, 0.0), hitters)


def _histogram(spec: Spec, rows: int) -> Lookups:
    histogram = read_histogram(spec)
    if histogram.distinct > rows:
        raise UsageError(f"{histogram.distinct:g} distinct rows of a table of {rows} rows")
    return histogram.occurrences(rows)


_KINDS: dict[str, Callable[[Spec, int], Lookups]] = {
    "uniform": lambda _spec, rows: uniform(rows),
    "zipf": _zipf,
    "tbe": _tbe,
    "histogram": _histogram,
}
_FIELDS = {
    "uniform": (),
    "zipf": ("exponent",),
    "tbe": ("heavy_hitters", "q", "s"),
    "histogram": ("distinct", "lookup_shares", "lookups", "shares"),
}
