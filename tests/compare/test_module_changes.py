"""Modules of two runs: their times side by side, and the flame graph of what changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import browse, needs_browser
from compared_runs import US, write_run
from pages import parse, section

from phantora_py.cli import main
from phantora_py.compare.comparison import compare, read_configuration
from phantora_py.compare.json_types import ChangedModule
from phantora_py.compare.module_changes import flame_levels
from phantora_py.compare.quantities import Prices

FORWARD, BACKWARD = 1, 3
PATHS = [[0, 1, "Net"], [0, 2, "Net.0"], [0, 3, "Net.1"]]


def write(path: Path, computes_ns: int, scope: int, *, knows: bool = True) -> Path:
    """A run whose work is all for one module."""
    scopes = [(rank, scope, 0) for rank in (0, 1)] if knows else []
    paths = [[rank, number, name] for rank in (0, 1) for _, number, name in PATHS]
    return write_run(path, [40 * US] * 3, computes_ns=computes_ns, scopes=scopes, modules=paths)


def changes_of(first: Path, this: Path) -> list[ChangedModule]:
    runs = [read_configuration(one, one.stem) for one in (first, this)]
    return list(compare(runs, Prices({}, None))["changes"][0]["modules"])


def test_modules_of_both_runs_are_compared(tmp_path: Path) -> None:
    """What only one of them has, too."""
    first = write(tmp_path / "a.phr", 10 * US, 2 << 3 | FORWARD)
    same, other = (
        write(tmp_path / "b.phr", 12 * US, 2 << 3 | FORWARD),
        write(tmp_path / "c.phr", 12 * US, 3 << 3 | BACKWARD),
    )
    (row,) = changes_of(first, same)
    assert (row["phase"], row["path"]) == ("forward", "Net.0")
    assert (row["first"]["gpu_ns"], row["this"]["gpu_ns"]) == (10 * US, 12 * US)
    gone, new = changes_of(first, other)
    assert (gone["path"], gone["this"]["gpu_ns"]) == ("Net.0", 0)
    assert (new["phase"], new["path"], new["first"]["gpu_ns"]) == ("backward", "Net.1", 0)
    levels = flame_levels([gone, new])
    assert [[one.box.name for one in level] for level in levels] == [
        ["forward", "backward"],
        ["Net", "Net"],
        ["0", "1"],
    ]
    assert [one.box.width for one in levels[0]] == pytest.approx([10 / 22, 12 / 22])
    assert [(one.first_ns, one.this_ns, one.strength) for one in levels[2]] == [
        (10 * US, 0, 1.0),
        (0, 12 * US, 1.0),
    ]


def test_runs_that_do_not_know_their_modules_have_none(tmp_path: Path) -> None:
    """One of them is enough."""
    first = write(tmp_path / "a.phr", 10 * US, 2 << 3 | FORWARD)
    this = write(tmp_path / "b.phr", 10 * US, 0, knows=False)
    assert changes_of(first, this) == []
    page = tmp_path / "out.html"
    assert main(["compare", str(first), str(this), "--html", str(page)]) == 0
    assert 'class="flame' not in page.read_text()


def test_the_page_draws_what_changed(tmp_path: Path) -> None:
    """In colours as strong as the change."""
    first = write(tmp_path / "a.phr", 10 * US, 2 << 3 | FORWARD)
    this = write(tmp_path / "b.phr", 11 * US, 2 << 3 | FORWARD)
    page = tmp_path / "out.html"
    assert main(["compare", str(first), str(this), "--html", str(page)]) == 0
    shown = section(parse(page.read_text()), "changes-1")
    (graph,) = [one for one in shown.all("div") if "changed" in one.attributes.get("class", "")]
    boxes = [one for level in graph.all("div") for one in level.all("span")]
    assert [one.text for one in boxes] == ["forward", "Net", "0"]
    assert all(one.attributes["class"] == "more" for one in boxes)
    assert all("--strength: 20%" in one.attributes["style"] for one in boxes)
    assert "10.0 us, now 11.0 us" in boxes[-1].attributes["title"]


@needs_browser
def test_in_a_browser(tmp_path: Path) -> None:
    """Boxes lie within the page, coloured."""
    first = write(tmp_path / "a.phr", 10 * US, 2 << 3 | FORWARD)
    this = write(tmp_path / "b.phr", 9 * US, 3 << 3 | FORWARD)
    page = tmp_path / "out.html"
    assert main(["compare", str(first), str(this), "--html", str(page)]) == 0
    results = browse(
        page.read_text(),
        tmp_path,
        """
        const [gone, fresh] = document.querySelectorAll(".flame.changed div:nth-child(3) span");
        results.colours = [gone, fresh].map((one) => getComputedStyle(one).backgroundColor);
        results.right = fresh.offsetLeft >= gone.offsetLeft + gone.offsetWidth - 1;
        results.wide = document.documentElement.scrollWidth > innerWidth;
        """,
    )
    assert results["troubles"] == []
    assert len(set(results["colours"])) == 2
    assert results["right"] is True
    assert results["wide"] is False
