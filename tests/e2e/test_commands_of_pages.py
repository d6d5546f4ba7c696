"""Commands of the documentation print what it shows beneath them.

`python -P tools/documented_output.py --write` makes the pages and their pictures anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import documented_output
import pytest
from documented_output import ROOT, SESSIONS, Page

from phantora_py.data import RunData

pytestmark = [pytest.mark.torch, pytest.mark.timeout(560)]
TUTORIAL = "docs/tutorial.md"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    """All pages with commands that are run, as they should be."""
    names = [name for session in SESSIONS for name in session]
    made = documented_output.make(names, tmp_path_factory.mktemp("pages"))
    return {page.name: page for page in made}


def test_pages_show_what_is_printed(pages: dict[str, Page]) -> None:
    """In text and pictures; every command works, one after the other."""
    assert [line for page in pages.values() for line in page.differences()] == []
    slow = {"docs/sixty-four-ranks.md"}
    assert {name for name, page in pages.items() if not page.printed} == slow


def test_throughput_is_that_of_the_script(pages: dict[str, Page]) -> None:
    """Tokens per second of a comparison are those that the script prints."""
    printed = pages[TUTORIAL].printed
    steps = next(text for command, text in printed.items() if "-o ddp.phr" in command)
    table = next(text for command, text in printed.items() if "compare ddp.phr" in command)
    found = re.findall(r"^step .* ([0-9,]+) tokens/s", steps, re.MULTILINE)[1:]
    script_per_s = median(float(one.replace(",", "")) for one in found)
    row = next(line for line in table.splitlines() if line.split()[:1] == ["ddp"])
    said_per_s = max(float(one.replace(",", "")) for one in re.findall(r"[0-9,]{7,}", row))
    assert said_per_s == pytest.approx(script_per_s, rel=0.02)


def test_the_tutorial_shows_the_verbs(pages: dict[str, Page]) -> None:
    """From a run to a decision; its pictures are files beside it."""
    used = {command.split()[1] for command in pages[TUTORIAL].printed if "phantora" in command}
    assert used >= {"run", "compare", "report", "sweep", "resimulate"}
    text = "\n".join(pages[TUTORIAL].after)
    pictures = {Path("docs") / one for one in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)}
    assert pictures == {*map(Path, documented_output.PICTURES[TUTORIAL].values())}
    assert all((ROOT / one).is_file() for one in pictures)


def test_traces_of_a_run(pages: dict[str, Page]) -> None:
    """The run is found again in its trace, and the traces tell nothing of us."""
    page = pages["docs/traces.md"]
    assert len(page.printed) >= 10
    runs = [RunData(page.folder / one) for one in ("train.phr", "again.phr")]
    assert runs[0].spans["end_ns"].max() == runs[1].spans["end_ns"].max()
    names = {one.name for one in (page.folder / "operators").iterdir()}
    assert names == {"rank-0.json", "rank-1.json", "ranks.json"}
    for trace in (page.folder / "train-trace").iterdir():
        content = trace.read_bytes()
        assert str(page.folder).encode() not in content
        assert b"train_gpt" not in content
