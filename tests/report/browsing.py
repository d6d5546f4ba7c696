"""A page in a real browser: what steps in JavaScript find out there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pages import parse

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no chromium or google-chrome")

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


def browse(page: str, folder: Path, steps: str) -> dict[str, Any]:
    """What the steps found out."""
    page = page.replace("<head>", f"<head>{LISTEN}", 1)
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
