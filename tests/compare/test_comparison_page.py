"""A comparison as a page: what it says, and that it works in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import browse, needs_browser
from compared_runs import PROFILE, US, write_run
from pages import Element, parse, section

from phantora_py.cli import main

EVIL = "</script><script>alert(1)</script><!--"


def write_page(tmp_path: Path, *words: str, code: int = 0) -> str:
    """Of three runs: with communication, without, and one without iterations."""
    slow = write_run(tmp_path / "slow.phr", [38 * US, 40 * US, 44 * US], communicates_ns=20 * US)
    settings = {"gpu": PROFILE, "nccl_environment": {"NCCL_ALGO": "Tree"}}
    run = {"command": ["python", "train.py", "--name", EVIL]}
    fast = write_run(tmp_path / "fast.phr", [20 * US] * 3, kernel=1, run=run, settings=settings)
    none = write_run(tmp_path / "none.phr", [])
    page = tmp_path / "out.html"
    files = map(str, (slow, fast, none))
    assert main(["compare", *files, "--html", str(page), *words]) == code
    return page.read_text(encoding="utf-8")


def bar_widths(page: Element) -> list[str]:
    """Of the bars of iterations, as CSS has them."""
    bars = [one for one in page.all("div") if one.attributes.get("class") == "bar"]
    return [one.attributes["style"] for one in bars]


def test_page(tmp_path: Path) -> None:
    """Figures, bars with intervals, and what changed, of each run; what a run says stays text."""
    page = parse(write_page(tmp_path))
    configurations = section(page, "configurations")
    assert [row[:4] for row in configurations.rows()] == [
        ["slow", "2 h100", "40.0 us", "1 (the first)"],
        ["fast", "2 h100", "20.0 us", "2.00 (1.90 to 2.20)"],
        ["none", "2 h100", "-", "-"],
    ]
    assert "none has no iteration after its first" in configurations.text
    # The longest iteration, of 44 us, is the full width.
    assert bar_widths(page) == ["width: 90.909%", "width: 45.455%"]
    iteration = section(page, "iteration")
    assert "38.0 us to 44.0 us" in iteration.text
    titles = [one.attributes.get("title", "") for one in iteration.all("i")]
    assert "iteration 3: 44.0 us" in titles
    assert "exposed communication: 20.0 us, 49.2 %" in titles
    inputs, classes, kernels, collectives = section(page, "changes-1").all("table")
    assert ["environment", "NCCL_ALGO", "not given", "Tree"] in inputs.rows()
    assert ["command", "--name", "not given", f"'{EVIL}'"] in inputs.rows()
    assert [row[:2] for row in classes.rows()] == [["attention", "new"], ["gemm", "gone"]]
    assert kernels.rows()[0] == ["flash_fwd_kernel", "new", "-", "1 x, 10.0 us", "+10.0 us", ""]
    (collective,) = collectives.rows()
    assert collective[:2] == ["all_reduce of 2 ranks", "gone"]
    assert len(list(page.all("script"))) == 1


def test_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not met stands at the head, and the exit code is that of the gate all the same."""
    text = write_page(tmp_path, "--gate", "iteration_time<=0.4", code=6)
    assert capsys.readouterr().out.startswith("Wrote ")
    banners = [
        one.text for one in parse(text).all("p") if "banner" in one.attributes.get("class", "")
    ]
    assert banners == [
        "Not met: iteration_time<=0.4. fast: 0.5 times the first.",
        "Not met: iteration_time<=0.4. none: not judged.",
    ]


def test_the_page_may_not_replace_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A data file named as output is refused and kept."""
    paths = [write_run(tmp_path / f"{name}.phr", [40 * US] * 2) for name in "ab"]
    before = paths[1].read_bytes()
    assert main(["compare", *map(str, paths), "--html", str(paths[1])]) == 2
    assert "is what is read" in capsys.readouterr().err
    assert paths[1].read_bytes() == before


@needs_browser
def test_in_a_browser(tmp_path: Path) -> None:
    """Tables sort, bars have their places, and nothing is fetched or run but our own."""
    results = browse(
        write_page(tmp_path),
        tmp_path,
        """
        const table = document.querySelector("#changes-1 .sortable");
        results.before = column(table, 0);
        table.querySelector("th button").click();
        results.byName = column(table, 0);
        table.querySelectorAll("th button")[3].click();
        results.byTime = column(table, 0);
        const [slow, fast] = document.querySelectorAll(".race .bar");
        results.ratio = (fast.clientWidth / slow.clientWidth).toFixed(2);
        results.wide = document.documentElement.scrollWidth > innerWidth;
        """,
    )
    assert results["troubles"] == []
    assert results["before"] == results["byTime"]
    assert results["byName"] == ["attention", "gemm"]
    assert results["ratio"] == "0.50"
    assert results["wide"] is False
