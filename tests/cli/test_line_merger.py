"""What many ranks print becomes one stream."""

import pytest

from phantora_py.cli.line_merger import STALE_S, LineMerger


class Shown:
    """What was written, and a clock that a test moves."""

    def __init__(self, by_line: bool = False) -> None:
        self.data = b""
        self.now_s = 0.0
        self.merger = LineMerger(self.write, by_line, clock_s=lambda: self.now_s)

    def write(self, data: bytes) -> None:
        self.data += data


def test_a_single_rank_is_shown_as_it_is() -> None:
    """Progress bars and questions work as without phantora, and no name is put before a line."""
    shown = Shown()
    for piece in (b"name? ", b"\r 10%", b"\r 20%", b"\ndone\n", b"\xff"):
        shown.merger.add(3, piece)
    shown.merger.end(fresh_line=False)
    assert shown.data == b"name? \r 10%\r 20%\ndone\n\xff"


def test_lines_of_several_ranks_are_whole_and_named() -> None:
    """In the order in which they ended; the first rank has no name until there is a second."""
    shown = Shown()
    for rank, piece in ((0, b"a\nb"), (1, b"c"), (0, b"d\n"), (1, b"e\nf\ng"), (0, b"h\n")):
        shown.merger.add(rank, piece)
    assert shown.data == b"a\nb\n[rank0]: d\n[rank1]: ce\n[rank1]: f\n[rank0]: h\n"
    shown.merger.end(fresh_line=True)
    assert shown.data.endswith(b"[rank1]: g\n")


def test_a_name_that_is_there_is_not_repeated() -> None:
    """PyTorch puts it before the traceback of a failing rank."""
    shown = Shown()
    shown.merger.add(0, b"x\n")
    shown.merger.add(1, b"[rank1]: Traceback\n[rank1]:W1126 08:43\n[rank0]: quoted\n")
    assert shown.data == (b"x\n[rank1]: Traceback\n[rank1]:W1126 08:43\n[rank1]: [rank0]: quoted\n")


@pytest.mark.parametrize("bar", [[b"10%\r", b"20%\r"], [b"\r10%", b"\r20%"]])
def test_a_progress_bar_beside_other_ranks(bar: list[bytes]) -> None:
    """Of what was written over itself the last is shown, now and then and at the end."""
    shown = Shown()
    shown.merger.add(1, b"x\n")
    for piece in bar:
        shown.merger.add(0, piece)
    assert shown.merger.unfinished() == b"[rank0]: 20%"
    shown.merger.show_stale()
    assert shown.data == b"x\n"
    shown.now_s = STALE_S
    shown.merger.show_stale()
    assert shown.data == b"x\n[rank0]: 20%\n"
    shown.merger.add(0, b"\r30%\n")
    assert shown.data.endswith(b"20%\n[rank0]: 30%\n")


def test_a_line_without_end_is_shown_in_parts() -> None:
    """What is held back is bounded, and nothing is lost."""
    shown = Shown()
    shown.merger.add(1, b"x\n")
    for _ in range(300):
        shown.merger.add(0, b"y" * 1000)
    shown.merger.end(fresh_line=True)
    parts = shown.data.removeprefix(b"x\n").splitlines()
    assert all(len(part) < 100_000 for part in parts)
    assert b"".join(part.removeprefix(b"[rank0]: ") for part in parts) == b"y" * 300_000


def test_by_line_nothing_else_is_written() -> None:
    """Where a line beneath makes room for whole lines only."""
    shown = Shown(by_line=True)
    shown.merger.add(0, b"a\nb")
    assert (shown.data, shown.merger.unfinished()) == (b"a\n", b"b")
