"""Tables in terminals of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from phantora_py.text.tables import Column, print_table, table_console

COLUMNS = (
    Column("kernel", is_name=True),
    Column("class", left_out=2),
    Column("launches", justify_right=True, left_out=1),
    Column("time", justify_right=True),
)
ROWS = [
    ("void at::native::vectorized_elementwise_kernel<4>", "elementwise", "1,234", "12.3 ms"),
    ("[gemm]", "gemm", "5", "987 us"),
]


def printed(width: int) -> str:
    """A table on a terminal of this width."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    print_table(console, COLUMNS, ROWS)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", range(30, 120))
def test_no_figure_is_broken(width: int) -> None:
    """Names are, and no line is wider than the terminal. What is left out is named."""
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    text = " ".join(text.split())
    assert "12.3 ms" in text
    assert "987 us" in text
    assert ("1,234" in text) != ("launches." in text)
    assert (" elementwise " in text) != ("shows: class" in text)


def test_columns_are_left_out_in_their_order() -> None:
    """The one of least use first, and only as far as there is no room."""
    assert "wider" not in printed(60)
    assert printed(50).splitlines()[-1] == "A wider terminal also shows: class."
    assert " ".join(printed(36).split()).endswith("A wider terminal also shows: class, launches.")


def test_names_are_whole_where_there_is_room() -> None:
    """Brackets are no markup."""
    text = printed(100)
    assert ROWS[0][0] in text
    assert "[gemm]" in text


def test_a_table_of_no_rows() -> None:
    """Has its titles."""
    console = table_console(Console(file=io.StringIO()))
    print_table(console, COLUMNS, [])
    assert console.file.getvalue().split()[:4] == [one.title for one in COLUMNS]  # type: ignore[attr-defined]


def test_a_file_has_all_columns() -> None:
    """It is as wide as was told, whatever the terminal is."""
    console = table_console(Console(file=io.StringIO(), width=40), plain_width=140)
    print_table(console, COLUMNS, ROWS)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert ROWS[0][0] in text
    assert "wider" not in text
