"""What tools/documented_output.py finds in a page and makes of it, without running phantora."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import documented_output
import documented_pictures
import pytest
from documented_output import Step, UnfitError, as_printed, steps

PICTURE = Path(__file__).parents[2] / "docs" / "tutorial" / "page.png"
PRINTED = ["step 0: 5 ms", "step 1: 4 ms", "", "iteration  4 ms (of 2)", "  peak 3", "wall 9 s"]


def test_which_commands_are_run() -> None:
    """Those that a comment names, those of the block beneath one, or all of a page."""
    text = ["<!-- run -->", "", "    $ a \\", "          -b", "    one", "", "    two", "    $ c"]
    other = ["    $ not run", "", "", "<!-- run: d e -->", "", "    three", "end"]
    assert [*steps([*text, "text", *other])] == [
        Step("a  -b", 4, 7),
        Step("c", 8, 8),
        Step("d e", 14, 15),
    ]
    alone = ["", "    no command", "text"]
    varying = [*steps(["<!-- run, varies -->", *text[1:]])]
    assert [one.varies for one in varying] == [True, True]
    whole = [*steps(["<!-- run every command -->", *alone, *text[1:], "text", *other])]
    assert [one.command for one in whole] == ["a  -b", "c", "not run", "d e"]


def test_parts_are_found_by_their_words() -> None:
    """Figures are those of today; all is shown where nothing is left out."""
    assert as_printed(["old"], PRINTED) == PRINTED
    shown = ["step 7: 1 us", "...", "iteration  777 s", "  peak 1", "..."]
    assert as_printed(shown, PRINTED) == [
        *("step 0: 5 ms", "...", "iteration  4 ms (of 2)", "  peak 3", "...")
    ]
    assert as_printed(["...", "wall 1 s"], PRINTED) == ["...", "wall 9 s"]


@pytest.mark.parametrize(
    "shown",
    [
        ["iteration 4", "..."],
        ["...", "iteration 4"],
        ["...", "step 1", "iteration 4", "..."],
        ["...", "iteration 4", "...", "step 1", "..."],
        ["...", "walls 9", "..."],
    ],
    ids=["not first", "not last", "not in a row", "in another order", "not there"],
)
def test_what_is_no_longer_printed_is_told(shown: list[str]) -> None:
    """A page is not filled with something else."""
    with pytest.raises(UnfitError, match="no longer prints"):
        as_printed(shown, PRINTED)


def test_a_page_is_compared_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 with the differences; with --write the page is mended; 2 if a command fails."""
    monkeypatch.setattr(documented_output, "ROOT", tmp_path)
    monkeypatch.setattr(documented_output, "SESSIONS", (("a.md", "b.md"),))
    (tmp_path / "examples").mkdir()
    a, b = tmp_path / "a.md", tmp_path / "b.md"
    before = "<!-- run every command -->\n\n    $ cat x\n    8 9\n\n    $ wc -w < x\n    7\n\nend\n"
    a.write_text(before)
    b.write_text("<!-- run -->\n\n    $ grep -o 9 x\n    ...\n")

    def main(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["tool", *words])
        return documented_output.main()

    assert main() == 1
    assert "-    7\n+    2\n" in capsys.readouterr().out
    assert a.read_text() == before
    assert main("--write") == 0
    assert a.read_text() == before.replace("    7\n", "    2\n")
    assert main() == 0
    b.write_text("<!-- run slowly -->\n\n    $ wc -w < x\n    7\n")
    assert main() == 0
    assert main("--slow") == 1
    b.write_text("<!-- run -->\n\n    $ grep -o 7 x\n")
    assert main("a.md") == 0
    assert main() == 2
    assert "b.md: grep -o 7 x\nIt ended with 1" in capsys.readouterr().err


def test_a_screenshot_knows_what_it_shows() -> None:
    """Its description is read back, and the picture is otherwise the same."""
    png = PICTURE.read_bytes()
    text = documented_pictures.description_of(png)
    assert "iteration, median of" in text
    assert documented_pictures.description_of(documented_pictures.described(png, "9 ms")) == "9 ms"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_picture_is_made_where_figures_changed(tmp_path: Path) -> None:
    """And left alone where they did not."""
    source, picture = tmp_path / "a.html", tmp_path / "a.png"
    source.write_text('<section id="iteration"><b>7</b> ms</section>')
    assert documented_pictures.picture_differs(source, picture)
    documented_pictures.write_picture(source, picture)
    assert not documented_pictures.picture_differs(source, picture)
    before = picture.read_bytes()
    documented_pictures.write_picture(source, picture)
    assert picture.read_bytes() == before
    source.write_text('<section id="iteration"><b>8</b> ms</section>')
    assert documented_pictures.picture_differs(source, picture)
