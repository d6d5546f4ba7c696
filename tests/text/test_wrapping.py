"""Lines that are wider than the terminal."""

from __future__ import annotations

import pytest
from rich.text import Text

from phantora_py.text.wrapping import wrapped

LINE = "  compute 94.0 %   communication 6.0 % (exposed)   host < 0.1 %   idle"


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, [LINE]),
        (len(LINE), [LINE]),
        (
            len(LINE) - 1,
            ["  compute 94.0 %   communication 6.0 % (exposed)   host < 0.1 %", "idle"],
        ),
        (40, ["  compute 94.0 %", "communication 6.0 % (exposed)", "host < 0.1 %   idle"]),
        (
            20,
            ["  compute 94.0 %", "communication", "6.0 %", "(exposed)", "host < 0.1 %", "idle"],
        ),
    ],
)
def test_broken_between_figures(width: int, expected: list[str]) -> None:
    """As few lines as hold the figures whole; those after the first stand further in."""
    first, *others = [one.plain for one in wrapped(Text(LINE), width)]
    assert [first, *others] == [expected[0], *(f"      {one}" for one in expected[1:])]


def test_labels_stay_with_what_follows() -> None:
    """Also if that is too wide; then it is broken between words."""
    line = Text("  host       622 MiB of tensors per rank not filled (most random)")
    assert [one.plain for one in wrapped(line, 30)] == [
        *("  host       622 MiB of", "      tensors per rank not", "      filled (most random)"),
    ]


def test_styles_stay() -> None:
    """Each part has those of its place."""
    lines = wrapped(Text.from_markup("a long label   two   [red]three[/]"), 14)
    assert [(one.plain, [span.style for span in one.spans]) for one in lines] == [
        ("a long label", []),
        ("    two", []),
        ("    three", ["red"]),
    ]


@pytest.mark.parametrize("width", range(24, 90))
def test_no_line_is_wider(width: int) -> None:
    """Long words are broken, also beside a label, and nothing is lost."""
    path = "/home/somebody/in/folders_whose_names_are_long/of_a_project/train.py:1234"
    for text in (
        f"  values     12 at {path} main",
        f"    4,000 at {path}; split",
        f"{path} {path}",
    ):
        parts = [one.plain for one in wrapped(Text(text), width)]
        assert max(map(len, parts)) <= width
        assert "".join("".join(parts).split()) == "".join(text.split())
