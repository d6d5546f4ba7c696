"""The host time of a run by key, as its ranks tell it at their end (docs/records.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sim_server._engine import MalformedInput
from sim_server.cpu import CALLS, WORKS

SOURCES = ("signature", "family", "call", "fixed")
"""Where a replayed gap came from: the launch's signature, its family, the call's symbol, or the
table of `--host-time fixed`.
"""


# Of the Python functions that took most.
_FUNCTIONS = 40


class HostGapLog:
    """Gathers what ranks say; `to_dict` is the content of host_gaps.json."""

    KINDS = ("host_gaps", "replayed_gaps", "counted_work", "host_sample")
    """Of statistics that belong here."""

    def __init__(self) -> None:
        self._measured: dict[str, list[tuple[int, int]]] = {}
        self._replayed = {source: [0, 0] for source in SOURCES}
        self._works = {work: [0, 0] for work in WORKS}
        self._calls = {call: [0, 0] for call in CALLS}
        self._functions: Counter[str] = Counter()
        self._stacks: Counter[tuple[str, ...]] = Counter()
        self._elsewhere_ns = 0
        self._samples: list[dict[str, Any]] = []

    def add(self, rank: int, statistics: Mapping[str, Any]) -> None:
        """One of KINDS. Raises: MalformedInput if it names what there is not."""
        kind = statistics["kind"]
        if kind == "host_gaps":
            self.add_measured(statistics["gaps"])
        elif kind == "replayed_gaps":
            self.add_replayed(statistics)
        elif kind == "counted_work":
            _check_counted(rank, statistics)
            self.add_counted(statistics)
        else:
            self.add_sample(rank, statistics)

    def add_measured(self, gaps: Iterable[tuple[str, int, int]]) -> None:
        """Of one rank: key, calls, typical gap in ns of processor time."""
        for key, calls, gap_ns in gaps:
            self._measured.setdefault(key, []).append((gap_ns, calls))

    def add_replayed(self, totals: Mapping[str, Any]) -> None:
        """Of one rank: calls and charged ns by source."""
        for source in SOURCES:
            calls, charged_ns = totals[source]
            self._replayed[source][0] += calls
            self._replayed[source][1] += charged_ns

    def add_counted(self, totals: Mapping[str, Any]) -> None:
        """Of one rank: what was counted, and where its time was charged."""
        for mine, told in ((self._works, totals["works"]), (self._calls, totals["calls"])):
            for name, times, charged_ns in told:
                mine[name][0] += times
                mine[name][1] += charged_ns
        self._functions.update(dict(totals["functions"]))
        self._stacks.update(by_stack(totals["stacks"]))
        self._elsewhere_ns += totals["elsewhere_ns"]

    def add_sample(self, rank: int, sample: Mapping[str, Any]) -> None:
        """Of one iteration of a rank: processor time and counts."""
        names = ("spent_ns", "works", "calls")
        self._samples.append({"rank": rank, **{name: sample[name] for name in names}})

    def to_dict(self) -> dict[str, Any]:
        """A key's gap is the median over the ranks, weighted by their calls."""
        functions = sorted(self._functions.items(), key=lambda one: (-one[1], one[0]))
        return {
            "measured": [
                {
                    "key": key,
                    "calls": sum(calls for _, calls in ranks),
                    "gap_ns": weighted_median(ranks),
                }
                for key, ranks in sorted(self._measured.items())
            ],
            "replayed": {
                source: {"calls": calls, "charged_ns": charged_ns}
                for source, (calls, charged_ns) in self._replayed.items()
            },
            "counted": {
                "works": _totals(self._works),
                "calls": _totals(self._calls),
                "functions": functions[:_FUNCTIONS],
                "elsewhere_ns": self._elsewhere_ns,
                "stacks": as_tree(self._stacks),
            },
            "samples": sorted(self._samples, key=lambda one: one["rank"]),
        }


def by_stack(tree: Iterable[tuple[int, str, int]]) -> dict[tuple[str, ...], int]:
    """`tree`: each with its caller's place from 1 on, or 0, its name, and what it was charged
    itself. Returns that by names, outermost first.
    """
    stacks: list[tuple[str, ...]] = [()]
    charged_ns: Counter[tuple[str, ...]] = Counter()
    for caller, name, own_ns in tree:
        stacks.append((*stacks[caller], name))
        charged_ns[stacks[-1]] += own_ns
    return dict(charged_ns)


def as_tree(stacks: Mapping[tuple[str, ...], int]) -> list[tuple[int, str, int]]:
    """What `by_stack` takes: each below its caller, which comes before it."""
    places: dict[tuple[str, ...], int] = {(): 0}
    tree = []
    for stack in sorted(stacks):
        tree.append((places[stack[:-1]], stack[-1], stacks[stack]))
        places[stack] = len(tree)
    return tree


def _check_counted(rank: int, totals: Mapping[str, Any]) -> None:
    for mine, told in ((WORKS, totals["works"]), (CALLS, totals["calls"])):
        unknown = [name for name, *_ in told if name not in mine]
        if unknown:
            raise MalformedInput(f"rank {rank} has counted {unknown[0]!a}, which there is not")
    for place, (caller, name, _) in enumerate(totals["stacks"]):
        if caller > place:
            raise MalformedInput(f"rank {rank} tells the caller of {name!a} after it")


def _totals(totals: Mapping[str, list[int]]) -> dict[str, dict[str, int]]:
    return {
        name: {"times": times, "charged_ns": charged_ns}
        for name, (times, charged_ns) in totals.items()
    }


def weighted_median(values: Iterable[tuple[int, int]]) -> int:
    """`values`: value and weight; the least value up to which half of the weight lies."""
    ordered = sorted(values)
    whole = sum(weight for _, weight in ordered)
    before = 0
    for value, weight in ordered:
        before += weight
        if 2 * before >= whole:
            return value
    raise ValueError("the median of nothing")
