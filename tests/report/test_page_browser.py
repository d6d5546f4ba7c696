"""The page in a real browser: it draws, zooms, searches and sorts without an error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from made_runs import make_run
from pages import parse
from test_page import EVIL, OPERATION, two_iterations

from phantora_py.data import RunData
from phantora_py.report.page.render import make_page

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium or google-chrome")

# Runs before the page's scripts. A browser without a display need not come to a next frame.
LISTEN = """<script>
window.requestAnimationFrame = (act) => setTimeout(act, 0);
window.troubles = [];
addEventListener("error", (event) => troubles.push(event.message));
addEventListener("securitypolicyviolation", (event) => troubles.push(event.blockedURI));
</script>"""
# Runs after them: acts as a user, and leaves what came of it in the document.
ACT = """<script>
const canvas = document.querySelector("canvas");
const box = document.getElementById("timeline-view");
const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const shown = async () => {{ await drawn(); return {{ ...canvas.dataset }}; }};
const press = (key) => box.dispatchEvent(new KeyboardEvent("keydown", {{ key, cancelable: true }}));
const point = (type, row, share) => {{
  const edge = canvas.getBoundingClientRect();
  const clientX = edge.left + GUTTER + share * (edge.width - GUTTER);
  const clientY = edge.top + AXIS + (row + 0.5) * STREAM_HEIGHT;
  canvas.dispatchEvent(new PointerEvent(type, {{ clientX, clientY, bubbles: true }}));
}};
const column = (table, at) => [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
(async () => {{
  const results = {{}};
  {steps}
  results.troubles = troubles;
  const element = document.createElement("pre");
  element.id = "results";
  element.textContent = JSON.stringify(results);
  document.body.append(element);
}})();
</script>"""


def browse(data: RunData, folder: Path, steps: str) -> dict[str, Any]:
    """What the steps found out."""
    page = make_page(data).replace("<head>", f"<head>{LISTEN}", 1)
    path = folder / "page.html"
    path.write_text(page.replace("</body>", ACT.format(steps=steps) + "</body>"), encoding="utf-8")
    assert BROWSER is not None
    options = ["--headless=new", "--disable-gpu", "--dump-dom", "--virtual-time-budget=20000"]
    # Chromium refuses to sandbox what root runs.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [BROWSER, *options, *sandbox, profile, "--window-size=1280,900", path.as_uri()],
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )
    found = [one for one in parse(done.stdout).all("pre") if one.attributes.get("id") == "results"]
    assert found, done.stderr
    # What parts the words of a description is white space around a dot.
    results: dict[str, Any] = json.loads(found[0].text.replace(" \u00b7 ", ", "))
    return results


def test_the_page_works(tmp_path: Path) -> None:
    """One visit, for a browser takes seconds to start."""
    results = browse(
        two_iterations(tmp_path / "a.phr"),
        tmp_path,
        """
        results.whole = await shown();
        press("+");
        results.nearer = await shown();
        press("ArrowRight");
        results.moved = await shown();
        press("Home");
        results.home = await shown();
        point("pointermove", 1, 0.3);
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
    whole = {"from": "0", "to": "1500000", "rows": "4"}
    assert results["whole"] == whole
    assert results["nearer"] == whole | {"from": "300000", "to": "1200000"}
    assert results["moved"] == whole | {"from": "435000", "to": "1335000"}
    assert results["home"] == whole
    assert results["about"] == "k, 900 us at 0 ns, gemm, modelled, rank 0, stream 0"
    assert results["found"] == "3 found, 300 us per rank"
    assert results["match"].startswith("all_reduce 1.00 MiB, 250 us at 1.00 ms, 2 ranks")
    assert results["closed"]["rows"] == "2"
    assert results["before"] == results["byTime"] == ["gemm", "copy"]
    assert results["byName"] == ["copy", "gemm"]


def test_nothing_of_the_run_is_carried_out(tmp_path: Path) -> None:
    """Names that look like scripts are names, in the picture too."""
    data = two_iterations(
        tmp_path / "a.phr",
        run={"command": ["python", EVIL]},
        timings=[{"name": EVIL, "class": EVIL, "tier": "modelled", "duration_ns": 1}],
        operations=[OPERATION | {"site": EVIL}],
    )
    results = browse(
        data,
        tmp_path,
        """
        results.shown = await shown();
        results.scripts = document.scripts.length;
        point("pointermove", 1, 0.3);
        results.about = document.getElementById("timeline-about").textContent;
        """,
    )
    assert results["troubles"] == []
    assert results["shown"]["rows"] == "4"
    # Ours: the listener, the timeline's data, the page's own, the actor.
    assert results["scripts"] == 4
    assert EVIL in results["about"]


def test_a_run_without_work(tmp_path: Path) -> None:
    """An empty picture is no error."""
    results = browse(
        make_run(tmp_path / "a.phr", [[], []]), tmp_path, "results.shown = await shown();"
    )
    assert results["troubles"] == []
    assert results["shown"]["rows"] == "2"
