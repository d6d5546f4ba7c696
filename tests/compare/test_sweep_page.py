"""A sweep as a page: all configurations in the plan's order, with the figures of the JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from browsing import browse, needs_browser
from compared_runs import US, certain_members, write_run
from made_runs import rank_memory
from pages import Element, parse, section

from phantora_py.cli import main
from phantora_py.sweep.plan import read_plan
from phantora_py.sweep.results import Result, Results, inputs_of
from phantora_py.text.units import duration_text

COMMAND = ["true", "{size}"]
PLAN = """
[[configuration]]
name = "too large"
size = 9
[[configuration]]
name = "first <i>"
size = 2
[[configuration]]
name = "too many"
size = 1
run.ranks = 9
[[configuration]]
size = 1
[[configuration]]
size = 3
"""
Times = Mapping[int, tuple[int, ...]]
# By configuration: the iterations of the run that is there already. The third is refused.
ITERATIONS_US: Times = {0: (), 1: (80,) * 9, 3: (38, 40, 44) * 3, 4: (42,) * 9}
NAMES = ["too large", "first <i>", "too many", "size=1", "size=3"]


def keep_runs(
    folder: Path, iterations_us: Times = ITERATIONS_US, failing: int | None = 0
) -> list[str]:
    """Results of the plan, as if it had been run before. The words of a sweep that takes them.
    `failing`: which ran out of memory, if any did.
    """
    plan = folder / "plan.toml"
    plan.write_text(PLAN)
    results = Results(folder / "out")
    oom = {"asked_bytes": 1 << 40, "free_bytes": 1 << 30, "site": "train.py:7 main"}
    for number, one in enumerate(read_plan(plan, COMMAND)):
        if number not in iterations_us:
            continue
        inputs = inputs_of(one)
        key = results.key(inputs)
        times_ns = [time_us * US for time_us in iterations_us[number]]
        failed: dict[str, Any] = {}
        if number == failing:
            failed["run"] = {"exit_code": 4, "message": "Rank 0 ended. Its last lines:\nOOM"}
            ranks = [rank_memory(oom=[oom]), rank_memory()]
            failed["memory"] = {"capacity_bytes": 80 << 30, "per_rank": ranks}
        moves_ns = 5 * US if times_ns else 0
        data = write_run(
            results.data(key), times_ns, communicates_ns=moves_ns, **certain_members(), **failed
        )
        message = failed.get("run", {}).get("message", "")
        result = Result(one.name, 4 if failed else 0, message, bool(failed), 1.0, data)
        results.keep(key, inputs, result)
    return ["sweep", str(plan), "-o", str(folder / "out")]


def swept(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, Any]:
    """The page of that sweep, and its JSON."""
    words = (*keep_runs(folder), "--html", str(folder / "page.html"), "--json", *words)
    assert main([*words, "--", *COMMAND]) == 0
    return (folder / "page.html").read_text(encoding="utf-8"), json.loads(capsys.readouterr().out)


def cells_of(page: Element) -> list[dict[str, str]]:
    """The table of configurations: by heading."""
    (table,) = section(page, "configurations").all("table")
    heads = [head.text for head in table.all("th")]
    return [dict(zip(heads, row, strict=True)) for row in table.rows()]


def sorting_values(page: Element, title: str) -> list[float | None]:
    """What a column is sorted by."""
    (table,) = section(page, "configurations").all("table")
    at = [head.text for head in table.all("th")].index(title)
    (body,) = table.all("tbody")
    cells = [[*row.all("td")][at].attributes for row in body.all("tr")]
    return [float(cell["data-v"]) if "data-v" in cell else None for cell in cells]


def test_every_configuration_with_the_figures_of_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the plan, also what failed; sorted by what the JSON has."""
    text, found = swept(tmp_path, capsys, "--per-iteration", "64 tokens", "--price", "3.6")
    page = parse(text)
    rows = cells_of(page)
    assert [row["configuration"] for row in rows] == [
        *("too large out of memory", "first <i> baseline", "too many exit code 2"),
        *("size=1 * fastest", "size=3"),
    ]
    by_name = {run["name"]: run for run in found["runs"]}
    runs = [by_name.get(name) for name in NAMES]
    assert runs.index(None) == 2

    def figures(*keys: str) -> list[Any]:
        return [reduce(lambda value, key: value and value[key], keys, run) for run in runs]

    assert sorting_values(page, "virtual iteration") == figures("iteration", "median_ns")
    assert sorting_values(page, "tokens/s") == figures("throughput", "per_s")
    assert sorting_values(page, "peak memory") == figures("peak_memory_bytes")
    assert sorting_values(page, "exposed") == figures("exposed_communication_ns")
    assert sorting_values(page, "waiting") == figures("waiting_for_ranks_ns")
    assert sorting_values(page, "cost") == figures("cost", "per_iteration")
    ratios = figures("speed_up", "value")
    assert sorting_values(page, "speed-up") == [None, 1, *ratios[2:]]
    low_ns, high_ns = by_name["size=1"]["iteration"]["model_interval_ns"]
    interval = f"{duration_text(low_ns)} to {duration_text(high_ns)}"
    assert rows[3]["virtual iteration"] == f"40.0 us {interval}"


def test_what_stands_around_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line of the terminal, the sentence of each failure once, notes, the command."""
    words = keep_runs(tmp_path)
    place = tmp_path / "page.html"
    assert main([*words, "--html", str(place), "--", *COMMAND]) == 0
    told = " ".join(capsys.readouterr().out.split())
    page = parse(place.read_text(encoding="utf-8"))
    (banner,) = (one.text for one in page.all("p") if one.attributes.get("class") == "banner")
    assert banner.startswith("Fastest: size=1, 1.050 times as fast as the next, size=3")
    assert told.endswith(banner)
    first, second = (one.text for one in section(page, "failures").all("li"))
    assert first == "too large did not finish: exit code 4: Rank 0 ended."
    assert second.startswith("too many did not finish: exit code 2: usage: 9 ranks are not")
    assert page.text.count(first) == 1
    notes = [one.text for one in page.all("p") if one.attributes.get("class") == "note"]
    assert "The range of a speed-up has the spread" in " ".join(notes)
    assert "Speed-ups are against first <i>, the first that finished." in " ".join(notes)
    assert next(page.all("code")).text == "true '{size}'"


def test_nothing_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page is there all the same, and says why."""
    (tmp_path / "plan.toml").write_text("grid = {size = [1], run.ranks = [9]}")
    place = tmp_path / "page.html"
    words = ["sweep", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "out")]
    assert main([*words, "--html", str(place), "--", *COMMAND]) == 4
    page = parse(place.read_text(encoding="utf-8"))
    assert "No configuration finished." in page.text
    assert "Bars are" not in page.text
    assert cells_of(page) == [{"#": "1", "configuration": "the only one exit code 2"}]


def test_runs_without_iterations(tmp_path: Path) -> None:
    """They finished, and none is the fastest."""
    words = keep_runs(tmp_path, dict.fromkeys(range(5), ()), failing=None)
    assert main([*words, "--html", str(tmp_path / "page.html"), "--", *COMMAND]) == 0
    page = parse((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "size=3 has no iteration after its first" in page.text
    assert "No configuration finished." not in page.text
    assert "fastest" not in page.text.lower()


@pytest.mark.parametrize("place", ["folder", "nowhere/page.html", "pipe", "plan.toml", "s.svg"])
def test_a_bad_place_is_refused_before_anything_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
) -> None:
    """A directory, one that does not exist, a pipe, the plan itself, the drawing's place."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("plan.toml").write_text("grid = {size = [1], run.ranks = [9]}")
    words = ["sweep", "plan.toml", "--svg", "s.svg", "--html", place]
    assert main([*words, "--", *COMMAND]) == 2
    assert f"{place}" in capsys.readouterr().err
    assert not Path("plan.sweep").exists()


@needs_browser
def test_in_a_browser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns sort, what has no figure stays last, and a second click turns the order."""
    text, _ = swept(tmp_path, capsys)
    results = browse(
        text,
        tmp_path,
        """
        const table = document.querySelector(".sortable");
        const numbers = () => column(table, 0).map(Number);
        const click = (title) =>
          [...table.querySelectorAll("th button")].find((one) => one.textContent === title).click();
        results.before = numbers();
        click("virtual iteration");
        results.slowest = numbers();
        click("virtual iteration");
        results.fastest = numbers();
        click("#"); click("#");
        results.again = numbers();
        const [slow, fast] = table.querySelectorAll(".bar");
        results.ratio = (fast.clientWidth / slow.clientWidth).toFixed(1);
        results.wide = document.documentElement.scrollWidth > innerWidth;
        """,
    )
    assert results["troubles"] == []
    assert results["before"] == results["again"] == [1, 2, 3, 4, 5]
    assert results["slowest"] == [2, 5, 4, 1, 3]
    assert results["fastest"] == [4, 5, 2, 1, 3]
    assert results["ratio"] == "0.5"
    assert results["wide"] is False
