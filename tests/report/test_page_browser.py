"""The page in a real browser: it draws, zooms, searches and sorts without an error."""

from __future__ import annotations

from pathlib import Path

from browsing import browse, needs_browser
from made_runs import make_run
from test_page import EVIL, OPERATION, two_iterations

from phantora_py.report.page.render import make_page

pytestmark = needs_browser


def test_the_page_works(tmp_path: Path) -> None:
    """One visit, for a browser takes seconds to start."""
    results = browse(
        make_page(two_iterations(tmp_path / "a.phr")),
        tmp_path,
        """
        results.whole = await shown();
        press("+");
        results.nearer = await shown();
        press("ArrowRight");
        results.moved = await shown();
        press("Home");
        results.home = await shown();
        point("pointermove", 0, 0.95);
        results.path = document.getElementById("timeline-about").textContent;
        point("pointermove", 2, 0.3);
        results.about = document.getElementById("timeline-about").textContent;
        const search = document.getElementById("timeline-search");
        search.value = "TRAIN.PY:7";
        search.dispatchEvent(new Event("input"));
        results.found = document.getElementById("timeline-found").textContent;
        search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        results.match = document.getElementById("timeline-about").textContent;
        document.querySelector("[data-do=streams]").click();
        results.closed = await shown();
        const table = document.querySelector("#kernels table.sortable");
        results.before = column(table, 0);
        table.querySelector("th button").click();
        results.byName = column(table, 0);
        table.querySelectorAll("th button")[2].click();
        results.byTime = column(table, 0);
        """,
    )
    assert results["troubles"] == []
    whole = {"from": "0", "to": "1500000", "rows": "5"}
    assert results["whole"] == whole
    assert results["nearer"] == whole | {"from": "300000", "to": "1200000"}
    assert results["moved"] == whole | {"from": "435000", "to": "1335000"}
    assert results["home"] == whole
    assert results["path"] == "copy, host to device, 250 us at 1.25 ms, rank 0, critical path"
    assert results["about"] == "k, 900 us at 0 ns, gemm, modelled, rank 0, stream 0"
    assert results["found"] == "3 found, 300 us per rank"
    assert results["match"].startswith("all_reduce 1.00 MiB, 250 us at 1.00 ms, 2 ranks")
    assert results["closed"]["rows"] == "3"
    assert results["before"] == results["byTime"] == ["gemm", "copies"]
    assert results["byName"] == ["copies", "gemm"]


def test_nothing_of_the_run_is_carried_out(tmp_path: Path) -> None:
    """Names that look like scripts are names, in the picture too."""
    data = two_iterations(
        tmp_path / "a.phr",
        run={"command": ["python", EVIL]},
        timings=[{"name": EVIL, "class": EVIL, "tier": "modelled", "duration_ns": 1}],
        operations=[OPERATION | {"site": EVIL}],
    )
    results = browse(
        make_page(data),
        tmp_path,
        """
        results.shown = await shown();
        results.scripts = document.scripts.length;
        point("pointermove", 2, 0.3);
        results.about = document.getElementById("timeline-about").textContent;
        """,
    )
    assert results["troubles"] == []
    assert results["shown"]["rows"] == "5"
    # Ours: the listener, the timeline's data, the page's own, the actor.
    assert results["scripts"] == 4
    assert EVIL in results["about"]


def test_a_run_without_work(tmp_path: Path) -> None:
    """An empty picture is no error."""
    results = browse(
        make_page(make_run(tmp_path / "a.phr", [[], []])),
        tmp_path,
        "results.shown = await shown();",
    )
    assert results["troubles"] == []
    assert results["shown"]["rows"] == "2"
