"""One run: the figures that one asks for first, its tables, its comparison with others."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from phantora_py.api.compared import Compared
from phantora_py.api.html import listing
from phantora_py.compare.figures import figure_columns
from phantora_py.data import RunData
from phantora_py.report.summary import Summary, summarise
from phantora_py.tables import make_table


class Run(RunData):
    """The data file of a run: what `phantora_py.run` and `phantora_py.open` return. A notebook
    shows it as a table.
    """

    @cached_property
    def summary(self) -> Summary:
        """All that `phantora report --json` prints (docs/json.md)."""
        return summarise(self)

    @property
    def iteration_ns(self) -> int | None:
        """The median iteration after the first, virtual time; None without one."""
        return self.summary["iterations"]["median_ns"]

    @property
    def iteration_interval_ns(self) -> tuple[int, int] | None:
        """What the iteration may take with 90 % confidence, as the models err; None: not known."""
        interval = self.summary["trust"]["interval"]
        return None if interval is None else (interval["low_ns"], interval["high_ns"])

    @property
    def peak_memory_bytes(self) -> int | None:
        """Of the fullest GPU, with context and libraries; None if the run broke off."""
        return max(self.summary["memory"]["peak_device_bytes"], default=None)

    def table(self, name: str, library: str = "pandas") -> Any:
        """A table of the run: a `pandas.DataFrame`, or a `pyarrow.Table` with `library="arrow"`.

        What there is: docs/tables.md. Raises: UsageError, also if the library is not installed.
        """
        return make_table(self, name, library)

    def compare(
        self, *others: RunData, per_iteration: Sequence[str] = (), price: Sequence[str] = ()
    ) -> Compared:
        """These runs against this one. `per_iteration`: what an iteration of all ranks gets
        through, as `["64x4096 tokens"]`, once or for each run; `price`: of a GPU-hour, as
        `["2.49"]` or `["h100=2.49", "a100=1.29"]`. Raises: UsageError; TypeError without another.
        """
        if not others:
            raise TypeError("compare() takes at least one other run")
        return Compared([self.path, *(one.path for one in others)], per_iteration, price)

    def __repr__(self) -> str:
        return f"<Run {self.path}>"

    def _repr_html_(self) -> str:
        alone = Compared([self.path]).figures
        rows = [
            ("command", shlex.join(self.run["command"])),
            ("cluster", self.run["cluster_name"]),
            *((one.title, one.texts[0]) for one in figure_columns(alone["runs"])),
            ("data file", str(self.path)),
        ]
        return listing(rows, alone["notes"])
