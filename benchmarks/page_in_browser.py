"""How long a browser takes until a page can be used.

    python benchmarks/page_in_browser.py [--rounds 5] [--json] RUN.phr [...]

Headless Chromium opens the page of each data file. Times are by the page's own clock, from the
begin of navigation: until the scripts have run, from when on it answers, and until the timeline is
drawn. Seconds of real time, so they want a machine that does nothing else; medians of the rounds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import Results, median, parser

from phantora_py.data import RunData
from phantora_py.report.page.render import make_page

# After the page's own: times come into the document before it is printed.
CLOCK = """<pre id="clock"></pre><script>
(() => {
  const ran = performance.now();
  const box = document.getElementById("clock");
  box.textContent = `ran ${ran} drawn ${ran}`;
  requestAnimationFrame(() => { box.textContent = `ran ${ran} drawn ${performance.now()}`; });
})();
</script></body>"""
SHOWN = re.compile(r'id="clock">ran ([\d.]+) drawn ([\d.]+)<')


def browser() -> str:
    """Where there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise SystemExit("There is no chromium or google-chrome.")
    return found


def open_page(page: Path, folder: Path) -> tuple[float, float]:
    """Seconds until the scripts have run, and until the timeline is drawn."""
    # Chromium refuses to sandbox what root runs.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    profile = f"--user-data-dir={folder / 'profile'}"
    options = ["--headless=new", "--disable-gpu", "--window-size=1366,768", profile, *sandbox]
    command = [browser(), *options, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    shown = SHOWN.search(done.stdout)
    assert shown is not None, done.stdout[-500:]
    return float(shown[1]) / 1e3, float(shown[2]) / 1e3


def measure(runs: list[Path], rounds: int) -> Results:
    """A row for each run."""
    columns = ["run", "ranks", "page MiB", "scripts have run, s", "drawn, s"]
    results = Results("Pages in a browser", columns)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run in runs:
            data, page = RunData(run), folder / "page.html"
            page.write_text(make_page(data).replace("</body>", CLOCK), encoding="utf-8")
            open_page(page, folder)  # makes the profile
            times = [open_page(page, folder) for _ in range(rounds)]
            size = page.stat().st_size / 2**20
            middle = (median(column) for column in zip(*times, strict=True))
            results.add(run.stem, float(data.ranks), size, *middle)
    results.notes.append("The aim is 2 s until it can be used, and 10 MB.")
    return results


def main() -> int:
    """Measures and prints."""
    options = parser(__doc__)
    options.add_argument("runs", type=Path, nargs="+", metavar="RUN.phr")
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    measure(arguments.runs, arguments.rounds).show(arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
