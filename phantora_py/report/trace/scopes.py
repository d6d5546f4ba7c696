"""For which module, and in which phase, a GPU computed, from when to when.

Told of the stream that computes for the longest time: others work beside it, as copies and what
gathers parameters does, and have modules of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.data.rows import PHASES
from phantora_py.report.modules import Scopes
from sim_server.log.history import COMMUNICATION_SPAN

_OTHER = PHASES[-1]

Scope = tuple[str, ...]
"""A phase, and the parts of a module's path."""


class Stretch(NamedTuple):
    """Work of one stream that was issued in a row for one module in one phase."""

    phase: str
    path: str
    begin_ns: int
    end_ns: int


def scope_stretches(data: RunData, rank: int, spans: npt.NDArray[np.void]) -> Iterator[Stretch]:
    """Those of a rank's device, in order. `spans`: all work of the device."""
    spans = spans[spans["kind"] != COMMUNICATION_SPAN]
    if not len(spans):
        return
    streams, which = np.unique(spans["stream"], return_inverse=True)
    lasted_ns = spans["end_ns"] - spans["start_ns"]
    most = np.argmax(np.bincount(which, lasted_ns, len(streams)))
    spans = spans[which == most]
    spans = spans[np.lexsort((spans["end_ns"], spans["start_ns"]))]
    scopes = Scopes(data, rank)
    places = scopes.places(spans)
    firsts = np.flatnonzero(np.diff(places, prepend=-1))
    lasts = np.append(firsts[1:], len(places)) - 1
    columns = (places[firsts], spans["start_ns"][firsts], spans["end_ns"][lasts])
    for place, begin_ns, end_ns in zip(*(one.tolist() for one in columns), strict=True):
        phase, path = scopes.names[place]
        yield Stretch(phase, path, begin_ns, end_ns)


def phase_slices(stretches: Iterable[Stretch]) -> Iterator[tuple[str, int, int]]:
    """Stretches of one phase in a row as one: phase, begin, end."""
    for phase, group in itertools.groupby(stretches, key=lambda one: one.phase):
        of_phase = list(group)
        if phase != _OTHER:
            yield phase, of_phase[0].begin_ns, of_phase[-1].end_ns


def module_slices(stretches: Iterable[Stretch]) -> list[tuple[Scope, int, int]]:
    """Modules with those that they are parts of around them, with begin and end; in the order of
    their begins, the outer first.
    """
    found: list[tuple[Scope, int, int]] = []
    open_since: list[tuple[Scope, int]] = []
    last_ns = 0
    chains: dict[tuple[str, str], list[Scope]] = {}
    for phase, path, begin_ns, end_ns in stretches:
        chain = chains.get((phase, path))
        if chain is None:
            chain = chains[phase, path] = _chain(phase, path)
        depth = 0
        for scope, (other, _) in zip(chain, open_since, strict=False):
            if scope != other:
                break
            depth += 1
        found.extend((scope, since_ns, last_ns) for scope, since_ns in open_since[depth:])
        open_since[depth:] = [(scope, begin_ns) for scope in chain[depth:]]
        last_ns = end_ns
    found.extend((scope, since_ns, last_ns) for scope, since_ns in open_since)
    return sorted(found, key=lambda one: (one[1], len(one[0])))


def _chain(phase: str, path: str) -> list[Scope]:
    """A module and those that it is part of, from the outermost; none for no module."""
    parts = (phase, *path.split(".")) if path else ()
    return [parts[:length] for length in range(2, len(parts) + 1)]
