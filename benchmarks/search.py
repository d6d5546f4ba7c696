"""What `phantora search` costs against an exhaustive sweep, and whether it finds the same.

    python benchmarks/search.py --folder FOLDER [--spaces NAME ...]

Ten spaces of 24 or 27 layouts of the examples (`search_spaces`), most with some that do not fit:
each is swept in full, and then searched. A cost is the processors' time of all runs, as recorded
when they were carried out: results are kept in FOLDER, so that another time costs little. The
search's own work counts as its cost, the sweep's does not, and imports that runs share count for
neither. The last three spaces were left aside while the search was made. All of it takes more
than an hour of two cores.
"""

from __future__ import annotations

import itertools
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measurement import Results as Table
from measurement import parser

from phantora_py.advice.json_types import Search
from phantora_py.advice.search import search
from phantora_py.advice.space import Space, read_space
from phantora_py.compare.comparison import Configuration as Read
from phantora_py.compare.comparison import compare, read_configuration
from phantora_py.compare.fastest import find_fastest
from phantora_py.launch import fork_servers
from phantora_py.sweep.engines.local import LocalEngine
from phantora_py.sweep.plan import Configuration
from phantora_py.sweep.results import Result, Results
from phantora_py.sweep.runner import run_all

_ROOT = Path(__file__).resolve().parents[1]
_SPACES = (
    *("llama_tensor", "llama_replicas", "gpt_buckets", "llama_nccl", "gpt_accumulation"),
    *("llama_clusters", "llama_small"),
)
_LEFT_ASIDE = ("llama_grid", "gpt_nodes", "gpt_folded")
_COLUMNS = (
    *("space", "layouts", "do not fit", "sweep, s", "search, s", "of it, %"),
    *("cheap runs", "full runs", "worse by, %", "kept"),
)


@dataclass(frozen=True)
class _Compared:
    """A space, swept and searched. `worse`: by which part the search's choice is."""

    layouts: int
    too_large: int
    sweep_s: float
    search_s: float
    runs: tuple[int, int]
    worse: float
    kept: str


def main() -> None:
    """Prints a line for each space, and means."""
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, required=True, help="where results are kept")
    names = [*_SPACES, *_LEFT_ASIDE]
    options.add_argument("--spaces", nargs="+", choices=names, default=names, metavar="NAME")
    options.add_argument("--jobs", type=int, default=1, help="runs at a time")
    chosen = options.parse_args()
    folder = chosen.folder.absolute()
    os.chdir(_ROOT)  # as the commands of the spaces say
    table = Table("An exhaustive sweep and a search, in seconds of processors", _COLUMNS)
    ratios: dict[str, float] = {}
    for name in chosen.spaces:
        with fork_servers.offered():  # as both commands do
            one = _compare(name, folder / name, chosen.jobs)
        ratios[name] = one.search_s / one.sweep_s
        table.add(
            name + (" (left aside)" if name in _LEFT_ASIDE else ""),
            *(one.layouts, one.too_large, one.sweep_s, one.search_s, 100 * ratios[name]),
            *(*one.runs, 100 * one.worse, one.kept),
        )
    for what, those in (("", _SPACES + _LEFT_ASIDE), (" of those left aside", _LEFT_ASIDE)):
        some = [ratios[name] for name in those if name in ratios]
        if some:
            table.notes.append(
                f"Mean{what}: {sum(some) / len(some):.1%}, most {max(some):.1%}, "
                f"{sum(one <= 0.2 for one in some)} of {len(some)} at most a fifth"
            )
    table.show(chosen.json)


def _compare(name: str, folder: Path, jobs: int) -> _Compared:
    space = _read_space(name)
    results = Results(folder)

    def run(plan: Sequence[Configuration]) -> list[Result]:
        engine = LocalEngine(results, jobs)
        return run_all(plan, results, engine, retry=False, tell=lambda *_: None)

    swept = run(space.configurations)
    start_s = time.process_time()
    found = search(space, run, jobs=jobs)
    own_s = time.process_time() - start_s
    by_name = {one["name"]: one["runs"] for one in found["stages"]}
    fitting, worse, kept = _judge(space, swept, found)
    return _Compared(
        layouts=len(swept),
        too_large=len(swept) - fitting,
        sweep_s=sum(_cpu_s(one.cpu_s) for one in swept),
        search_s=own_s + sum(_cpu_s(one["cpu_s"]) for one in found["stages"]),
        runs=(by_name["cheap 1"], by_name["full"]),
        worse=worse,
        kept=kept,
    )


def _read_space(name: str) -> Space:
    """With the command in its first lines."""
    path = _ROOT / "benchmarks" / "search_spaces" / f"{name}.toml"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
    text = "".join(line.lstrip("# ") for line in comment).replace("\\\n", "")
    _, _, *command = shlex.split(text.partition("phantora search ")[2])
    return read_space(path, command)


def _judge(space: Space, swept: Sequence[Result], found: Search) -> tuple[int, float, str]:
    """How many fit; by which part the search's choice is worse than the best, and what it means."""
    reads: dict[str, Read] = {}
    losses: dict[str, float] = {}
    for one in swept:
        if one.data is None or one.exit_code:
            if not one.out_of_memory:
                raise SystemExit(f"{one.name} failed, and not for memory: {one.message}")
            continue
        read = read_configuration(one.data, one.name)
        figures = compare([read], space.prices)["runs"][0]
        if figures["fits"] is not False:
            reads[one.name] = read
            losses[one.name] = space.objective.loss(figures, space.prices)
    best, chosen = min(losses, key=losses.__getitem__), found["ranking"][0]["name"]
    if losses[chosen] == losses[best]:
        return len(losses), 0.0, "the best"
    pair = [reads[best], reads[chosen]]
    fastest = find_fastest(pair, compare(pair, space.prices)["runs"])
    ratio = fastest and fastest["speed_up"]
    told_apart = ratio is None or ratio["distinguishable"] is not False
    kept = "no" if told_apart else "not told apart"
    return len(losses), losses[chosen] / losses[best] - 1, kept


def _cpu_s(value: float | None) -> float:
    if value is None:
        raise SystemExit("A result in FOLDER has no processors' time: it is older than its record.")
    return value


if __name__ == "__main__":
    main()
