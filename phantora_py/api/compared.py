"""Runs beside each other, as `phantora compare` has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phantora_py.api.html import table
from phantora_py.compare.comparison import compare, names_of, read_configuration
from phantora_py.compare.figures import figure_columns
from phantora_py.compare.json_types import Comparison, SpeedUpJson
from phantora_py.compare.markdown import markdown
from phantora_py.compare.quantities import check_prices, parse_prices, parse_work


class Compared:
    """Each run against the first. A notebook shows it as a table; `str` of it is Markdown."""

    def __init__(
        self, paths: Sequence[Path], per_iteration: Sequence[str] = (), price: Sequence[str] = ()
    ) -> None:
        """The runs of these data files. `per_iteration`, `price`: as the options of `phantora
        compare`. Raises: UsageError if one of them cannot be read.
        """
        works = parse_work(per_iteration, len(paths))
        prices = parse_prices(price)
        runs = [
            read_configuration(path, name, work)
            for path, name, work in zip(paths, names_of(paths), works, strict=True)
        ]
        check_prices(prices, [gpu for one in runs for gpu in one.gpus])
        self.figures: Comparison = compare(runs, prices)
        """All that `phantora compare --json` prints (docs/json.md), but for the gates."""

    @property
    def speed_ups(self) -> list[SpeedUpJson | None]:
        """How many times as fast as the first each later run is, with its range; None: not known,
        as of a run without iterations.
        """
        return [run["speed_up"] for run in self.figures["runs"][1:]]

    def __str__(self) -> str:
        return markdown({**self.figures, "gates": []})

    def __repr__(self) -> str:
        return f"<Compared {', '.join(run['name'] for run in self.figures['runs'])}>"

    def _repr_html_(self) -> str:
        runs = self.figures["runs"]
        columns = figure_columns(runs)
        rows = zip([run["name"] for run in runs], *(one.texts for one in columns), strict=True)
        return table(["run", *(one.title for one in columns)], list(rows), self.figures["notes"])
