"""The table of ranks that `--live` shows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table

from phantora_py.agent.states import Doing, RankState
from phantora_py.text.units import duration_text
from sim_server.deadlock import ranges_text

# So many have a row each; of more, those that do the same share one (assumed to fit a terminal).
_MOST_ROWS = 16


def rank_table(states: Sequence[RankState], numbers: Sequence[int] | None = None) -> Table:
    """What every rank does, and how far its host has come. `numbers`: of the ranks, if not all
    run.
    """
    numbers = numbers or range(len(states))
    # As wide as the longest word, so that columns to the right do not move when a state changes.
    width = max(len(doing.value) for doing in Doing)
    states_column = Column("state", min_width=width, no_wrap=True)
    table = Table(
        Column("rank", overflow="fold"),
        states_column,
        "host at, virtual",
        box=None,
        pad_edge=False,
        padding=(0, 2),
    )
    if len(states) <= _MOST_ROWS:
        for rank, state in zip(numbers, states, strict=True):
            table.add_row(str(rank), state.doing.value, duration_text(state.host_ns))
        return table
    for doing in Doing:
        alike = [place for place, state in enumerate(states) if state.doing is doing]
        if alike:
            clocks_ns = [states[place].host_ns for place in alike]
            first, last = duration_text(min(clocks_ns)), duration_text(max(clocks_ns))
            when = first if first == last else f"{first} to {last}"
            table.add_row(ranges_text(numbers[place] for place in alike), doing.value, when)
    return table
