"""Every command of docs/tutorial.md works, one after the other, as a reader would type them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
LIMIT_S = 500


def blocks(text: str) -> Iterator[list[str]]:
    """The indented blocks of a page, line by line."""
    lines: list[str] = []
    for line in [*text.splitlines(), "end"]:
        if line.startswith("    "):
            lines.append(line[4:])
        elif line or not lines:
            if lines:
                yield lines
            lines = []
        else:
            lines.append("")


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Commands in order, each with what is printed beneath it."""
    for block in blocks(text):
        joined = "\n".join(block).replace("\\\n", " ")
        for step in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            yield command, shown


def timed_cells(shown: str) -> Iterator[str]:
    """Cells of the lines that have a time, without what the page leaves out."""
    for line in shown.splitlines():
        if re.search(r"\d ms", line):
            yield from (cell for cell in re.split(r" {2,}", line.strip()) if cell != "...")


@pytest.mark.timeout(LIMIT_S + 60)
def test_every_command_works(tmp_path: Path) -> None:
    """Files that the page shows are written as it shows them; no command fails, and each prints the
    figures that the page shows in lines with times; tokens per second in the comparison are those
    that the script prints.
    """
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = list(steps(TUTORIAL.read_text(encoding="utf-8")))
    assert {command.split()[1] for command, _ in commands if command.startswith("phantora")} >= {
        *("run", "compare", "report", "sweep", "resimulate")
    }
    stale: list[str] = []
    for command, shown in commands:
        if command.startswith("cat "):
            (tmp_path / command.removeprefix("cat ")).write_text(shown)
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        print(f"$ {command}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        stale += [f"{command}: {cell}" for cell in timed_cells(shown) if cell not in done.stdout]
        if command.startswith("phantora run -o ddp.phr"):
            script_per_s = median(
                float(found.replace(",", ""))
                for found in re.findall(r"([0-9,]+) tokens/s", done.stdout)[1:]
            )
        if command.startswith("phantora compare ddp.phr"):
            row = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["ddp"])
            said_per_s = max(float(one.replace(",", "")) for one in re.findall(r"[0-9,]{7,}", row))
    assert stale == []
    assert said_per_s == pytest.approx(script_per_s, rel=0.02)
    assert (tmp_path / "fsdp.html").stat().st_size > 10_000
    assert "<svg" in (tmp_path / "front.svg").read_text()


def test_pictures_are_there() -> None:
    """Every picture of the page is a file beside it."""
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", TUTORIAL.read_text(encoding="utf-8"))
    assert pictures
    for picture in pictures:
        assert (TUTORIAL.parent / picture).is_file(), picture
