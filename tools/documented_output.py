"""Runs the commands of the documentation and compares what it shows with what they print.

    python -P tools/documented_output.py [--write] [--slow] [PAGE ...]

Without --write it prints the differences, and exits with 1 if there are any; with it, it rewrites
the pages and makes their pictures. Pages of a session share a folder, so that one may use files of
those before it. Comments in a page say what is run:

    <!-- run every command -->   all lines of the page that begin with "$ "
    <!-- run -->                 those of the next block
    <!-- run slowly -->          the same, with --slow only: they take minutes
    <!-- run, varies -->         the same, but what they print differs from run to run: it stays
    <!-- run: COMMAND -->        COMMAND, of whose output the next block is

A line "..." in a block stands for lines that it leaves out, such as wall times and paths of a
machine. Each part between such lines is found again by its words. `$ cat FILE` writes FILE as the
page shows it. Commands see a terminal of 120 columns.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

from documented_pictures import picture_differs, write_picture  # noqa: E402

# Pages whose commands run in one folder, one page after the other; sessions run side by side.
SESSIONS = (
    ("docs/tutorial.md", "docs/compare.md", "docs/deciding.md"),
    ("README.md", "docs/running.md", "docs/bench.md"),
    ("docs/traces.md",),
    ("docs/sixty-four-ranks.md",),
)
# What a command of the page writes, and the file of the documentation that is made of it.
PICTURES = {
    "docs/tutorial.md": {
        "fsdp.html": "docs/tutorial/page.png",
        "front.svg": "docs/tutorial/front.svg",
    }
}
COLUMNS = "120"
LEFT_OUT = "..."
_MARK = re.compile(
    r"<!-- run(?P<all> every command)?(?P<slow> slowly)?(?P<varies>, varies)?"
    r"(?:: (?P<command>.+))? -->"
)


class UnfitError(Exception):
    """A command failed, or no longer prints what a page shows a part of."""


@dataclass(frozen=True)
class Step:
    """A command, and which lines of the page show what it prints."""

    command: str
    begin: int
    end: int
    varies: bool = False
    is_slow: bool = False


@dataclass
class Page:
    """What is made of a page."""

    path: Path
    folder: Path
    before: list[str]
    after: list[str] = field(default_factory=list)
    printed: dict[str, str] = field(default_factory=dict)
    """By command."""

    @property
    def name(self) -> str:
        """Below the root of the repository."""
        return str(self.path.relative_to(ROOT))

    def differences(self) -> Iterator[str]:
        """Lines of a diff from the page to what it should be; pictures that are of other runs."""
        names = (self.name, f"{self.name} (as printed)")
        yield from difflib.unified_diff(self.before, self.after, *names, n=1, lineterm="")
        for source, picture in PICTURES.get(self.name, {}).items():
            if picture_differs(self.folder / source, ROOT / picture):
                yield f"{picture}: shows other figures than {source} of today"

    def write(self) -> None:
        """The page and its pictures, as they should be."""
        self.path.write_text("".join(f"{line}\n" for line in self.after), encoding="utf-8")
        for source, picture in PICTURES.get(self.name, {}).items():
            write_picture(self.folder / source, ROOT / picture)


def steps(lines: Sequence[str]) -> Iterator[Step]:
    """The commands of a page that are run, in order."""
    whole = any((mark := _MARK.fullmatch(line)) and mark["all"] for line in lines)
    for begin, end in blocks(lines):
        above = next((line for line in reversed(lines[:begin]) if line), "")
        mark = _MARK.fullmatch(above)
        if mark and mark["command"]:
            yield Step(mark["command"], begin, end)
        elif mark or whole:
            varies = mark is not None and mark["varies"] is not None
            slow = mark is not None and mark["slow"] is not None
            for step in commands(lines, begin, end):
                yield replace(step, varies=varies, is_slow=slow)


def blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where indented blocks begin and end."""
    begin = end = None
    for at, line in enumerate([*lines, "end"]):
        if line.startswith("    "):
            begin, end = at if begin is None else begin, at + 1
        elif line and begin is not None and end is not None:
            yield begin, end
            begin = end = None


def commands(lines: Sequence[str], begin: int, end: int) -> Iterator[Step]:
    """Those of a block, each with what is shown beneath it."""
    starts = [at for at in range(begin, end) if lines[at].startswith("    $ ")]
    for start, stop in zip(starts, [*starts[1:], end], strict=False):
        words, shown = [lines[start].removeprefix("    $ ")], start + 1
        while words[-1].endswith("\\"):
            words[-1] = words[-1].removesuffix("\\")
            words.append(lines[shown].strip())
            shown += 1
        told = [at for at in range(shown, stop) if lines[at]]
        yield Step(" ".join(words), shown, told[-1] + 1 if told else shown)


def as_printed(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """What a block shows of an output, in its lines of today. A part that it shows may begin and
    end with any figures, and has the words that it had.
    """
    if LEFT_OUT not in shown:
        return list(printed)
    made: list[str] = []
    at = 0
    cuts = [place for place, line in enumerate(shown) if line == LEFT_OUT]
    for begin, end in zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(shown)], strict=True):
        part = shown[begin:end]
        first, last = at, len(printed) - len(part)
        places = [first] if begin == 0 else [last] if end == len(shown) else range(first, last + 1)
        keys = [_words(line) for line in part]
        found = [one for one in places if keys == [*map(_words, printed[one : one + len(part)])]]
        if not found or found[0] < at:
            raise UnfitError(f"It no longer prints this, so choose what to show:\n{_text(part)}")
        at = found[0] + len(part)
        made += [*printed[found[0] : at], *([LEFT_OUT] if end < len(shown) else [])]
    return made


def _words(line: str) -> str:
    """What stays in a line when its figures change."""
    return " ".join(re.split(r"\d", line.replace("─", ""), maxsplit=1)[0].split())


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def run(command: str, folder: Path) -> str:
    """What it prints to standard output on a terminal without colours."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    terminal = {"COLUMNS": COLUMNS, "LINES": "50", "FORCE_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, **terminal},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise UnfitError(f"It ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def make_page(name: str, folder: Path, slow: bool) -> Page:
    """Runs the page's commands in the folder, also those that take minutes if `slow`."""
    path = ROOT / name
    page = Page(path, folder, path.read_text(encoding="utf-8").splitlines())
    done = 0
    for step in steps(page.before):
        if step.is_slow and not slow:
            continue
        shown = [line.removeprefix("    ") for line in page.before[step.begin : step.end]]
        page.after += page.before[done : step.begin]
        done = step.end
        if step.command.startswith("cat "):
            (folder / step.command.removeprefix("cat ")).write_text(_text(shown) + "\n")
        else:
            try:
                page.printed[step.command] = run(step.command, folder)
                if shown and not step.varies:
                    lines = [line.rstrip() for line in page.printed[step.command].splitlines()]
                    shown = as_printed(shown, _without_blank_ends(lines))
            except UnfitError as error:
                raise UnfitError(f"{name}: {step.command}\n{error}") from None
        page.after += [f"    {line}".rstrip() for line in shown]
    page.after += page.before[done:]
    return page


def _without_blank_ends(lines: list[str]) -> list[str]:
    return _text(lines).strip("\n").splitlines()


def make(wanted: Sequence[str], folder: Path, slow: bool = False) -> list[Page]:
    """All pages of the sessions that have one of those that are wanted; of each session in a
    folder of its own.
    """

    def session(names: Sequence[str]) -> list[Page]:
        own = Path(tempfile.mkdtemp(dir=folder))
        shutil.copytree(ROOT / "examples", own / "examples")
        last = max(names.index(name) for name in names if name in wanted)
        return [make_page(name, own, slow) for name in names[: last + 1]]

    chosen = [names for names in SESSIONS if not {*names}.isdisjoint(wanted)]
    # A run waits for its processes more than it computes.
    with ThreadPoolExecutor(2) as pool:
        return [page for pages in pool.map(session, chosen) for page in pages]


def main() -> int:
    """Compares, or writes."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pages = [page for session in SESSIONS for page in session]
    options.add_argument("--write", action="store_true", help="rewrite the pages")
    options.add_argument("--slow", action="store_true", help="also what takes minutes")
    options.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(pages)}")
    arguments = options.parse_args()
    if unknown := {*arguments.pages} - {*pages}:
        options.error(f"no page with commands to run: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = make(arguments.pages or pages, Path(folder), arguments.slow)
            found = [line for page in made for line in page.differences()]
            print(_text(found) or "All pages show what their commands print.")
            if arguments.write and found:
                for page in made:
                    page.write()
                return 0
        except UnfitError as error:
            print(error, file=sys.stderr)
            return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
