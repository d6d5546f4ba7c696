"""What several sections of a report are computed from, each found once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from phantora_py.data import RunData
from phantora_py.report.asked import Asked
from phantora_py.report.breakdown import Breakdown, break_down
from phantora_py.report.certainty import Certainty, certainty
from phantora_py.report.host_load import HostLoad, host_load
from phantora_py.report.iterations import Iterations, find_iterations
from phantora_py.report.modules import ScopeTimes, scope_times
from phantora_py.report.throughput import Taken
from phantora_py.report.window import Window, steady_window


class Findings:
    """Of one run."""

    def __init__(
        self, data: RunData, told: Mapping[str, Taken] | None = None, asked: Asked | None = None
    ) -> None:
        """`told`: `samples` or `tokens` of an iteration, where the user says. `asked`: what else
        the report is to have.
        """
        self.data = data
        self.told = told or {}
        self.asked = asked or Asked()
        self.iterations: Iterations = find_iterations(data)

    @cached_property
    def started(self) -> frozenset[int]:
        """The ranks that there were: a program that starts its own may leave GPUs alone."""
        ranks = frozenset(range(self.data.ranks))
        if not self.data.run.get("own_ranks"):
            return ranks
        return ranks & {rank for rank in self.data.told.ranks if any(self.data.records(rank))}

    @cached_property
    def window(self) -> Window:
        """All iterations after the first that do equal work."""
        return steady_window(self.data, self.iterations)

    @cached_property
    def breakdown(self) -> Breakdown | None:
        """None if no iteration was found."""
        return break_down(self.data, self.iterations)

    @cached_property
    def host_load(self) -> HostLoad:
        """How busy the hosts are in an iteration."""
        return host_load(self.data, self.window)

    @cached_property
    def certainty(self) -> Certainty | None:
        """How sure the iteration time is; None where that is not known."""
        return certainty(self.data, self.window, self.breakdown, self.host_load)

    @cached_property
    def median_ns(self) -> int | None:
        """Of the iterations that are compared; None if there are none."""
        return int(np.median(self.iterations.compared_ns)) if self.iterations.count else None

    @cached_property
    def scopes(self) -> dict[tuple[str, str], ScopeTimes]:
        """Work by phase and module; empty where that is not known."""
        return scope_times(self.data, self.window)
