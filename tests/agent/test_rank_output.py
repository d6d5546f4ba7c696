"""What ranks print is read from their files, kept and shown."""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from phantora_py.agent import output as output_module
from phantora_py.agent.output import RankOutput
from phantora_py.launch.spool import Stream, output_paths
from sim_server.errors import UsageError

BOTH = (Stream("log", 1),)
APART = (Stream("stdout", 1), Stream("stderr", 2))


class Kept:
    """Is told everything."""

    def __init__(self) -> None:
        self.members: dict[str, bytes] = {}
        self.said_by: dict[tuple[int, int], bytes] = defaultdict(bytes)
        self.error: Exception | None = None

    def write(self, name: str, content: bytes) -> None:
        self.members[name] = content

    def check(self) -> None:
        """All is well."""

    def said(self, rank: int, descriptor: int, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.said_by[rank, descriptor] += data

    def rest(self) -> None:
        """Noted by nobody."""


@contextmanager
def files(paths: list[str]) -> Iterator[list[int]]:
    """A rank's side of its output."""
    opened = [os.open(path, os.O_WRONLY | os.O_APPEND) for path in paths]
    yield opened
    for file in opened:
        os.close(file)


def write(
    tmp_path: Path, streams: tuple[Stream, ...], rank: int, *texts: tuple[int, bytes]
) -> None:
    """What a rank writes to its descriptors 1 and 2."""
    with files(output_paths(tmp_path, rank, streams)) as (out, err):
        for descriptor, text in texts:
            os.write(out if descriptor == 1 else err, text)


def test_order_of_both_streams_is_kept(tmp_path: Path) -> None:
    """Where both lead to one place."""
    kept = Kept()
    with RankOutput(tmp_path, BOTH, [0, 1], {0, 1}, kept, kept):
        write(tmp_path, BOTH, 1, (1, b"a\n"), (2, b"b\n"), (1, b"c"))
    assert kept.said_by == {(1, 1): b"a\nb\nc"}
    assert kept.members == {"logs/rank-1.log/000000": b"a\nb\nc"}


def test_ranks_that_are_not_shown_are_kept(tmp_path: Path) -> None:
    """In the data file, and in files where the user wants them."""
    kept = Kept()
    copies = tmp_path / "logs"
    with RankOutput(tmp_path, APART, [0, 1], {0}, kept, kept, copies):
        write(tmp_path, APART, 0, (1, b"a"))
        write(tmp_path, APART, 1, (1, b"b"), (2, b"c"))
    assert kept.said_by == {(0, 1): b"a"}
    assert kept.members == {
        "logs/rank-0.stdout/000000": b"a",
        "logs/rank-1.stdout/000000": b"b",
        "logs/rank-1.stderr/000000": b"c",
    }
    assert {file.name: file.read_bytes() for file in copies.iterdir()} == {
        **{"rank-0.stdout": b"a", "rank-0.stderr": b"", "rank-1.stdout": b"b"},
        "rank-1.stderr": b"c",
    }


def test_megabytes_are_neither_lost_nor_hoarded(tmp_path: Path) -> None:
    """All arrives in order, and what has been read takes no room."""
    kept = Kept()
    text = b"".join(b"%07d\n" % number for number in range(1 << 19))
    with RankOutput(tmp_path, BOTH, [0], {0}, kept, kept):
        write(
            tmp_path, BOTH, 0, *((1, text[at : at + 99_999]) for at in range(0, len(text), 99_999))
        )
    assert kept.said_by[0, 1] == text
    assert b"".join(kept.members.values()) == text
    assert len(kept.members) > 1
    assert os.stat(tmp_path / "rank-0.log").st_blocks * 512 < len(text) / 2


def test_last_lines(tmp_path: Path) -> None:
    """They are there as soon as they are written: of the errors if there are any."""
    kept = Kept()
    output = RankOutput(tmp_path, APART, [0, 1, 2], set(), kept, kept)
    write(tmp_path, APART, 0, (1, b"out\n"), (2, b"".join(b"%d\n" % line for line in range(30))))
    write(tmp_path, APART, 1, (1, b"out\n10%\r20%\n\n"))
    numbers = "\n  ".join(str(line) for line in range(10, 30))
    assert output.last_words(0) == f"Its last lines:\n  {numbers}"
    assert output.last_words(1) == "Its last lines:\n  out\n  20%"
    assert output.last_words(2) == "It printed nothing."
    direct = RankOutput(tmp_path, (), [0], {0}, kept, kept)
    assert direct.last_words(0) == "What it said is above."


def test_after_a_failure_one_rank_is_shown(tmp_path: Path) -> None:
    """What the others say because they are stopped is not of interest."""
    kept = Kept()
    with RankOutput(tmp_path, BOTH, [0, 1], {0, 1}, kept, kept) as output:
        write(tmp_path, BOTH, 0, (1, b"before"))
        output.show_only(1)
        write(tmp_path, BOTH, 0, (1, b" after"))
        write(tmp_path, BOTH, 1, (1, b"b"))
    assert kept.said_by == {(0, 1): b"before", (1, 1): b"b"}
    assert kept.members["logs/rank-0.log/000000"] == b"before after"


def test_a_program_may_cut_its_output(tmp_path: Path) -> None:
    """`> /dev/stderr` in a shell does; what comes afterwards is seen."""
    kept = Kept()
    output = RankOutput(tmp_path, BOTH, [0], {0}, kept, kept)
    write(tmp_path, BOTH, 0, (1, b"before\n"))
    assert output.last_words(0) == "Its last lines:\n  before"
    (tmp_path / "rank-0.log").write_bytes(b"cut\n")
    assert output.last_words(0) == "Its last lines:\n  before\n  cut"


def test_a_reader_that_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`| head`: whoever runs the loop is told, and the end is told too."""
    monkeypatch.setattr(output_module, "_LOOK_EVERY_S", 0.0)
    kept = Kept()
    kept.error = BrokenPipeError("gone")
    output = RankOutput(tmp_path, BOTH, [0], {0}, kept, kept)
    with pytest.raises(BrokenPipeError), output:
        write(tmp_path, BOTH, 0, (1, b"a"))
    with pytest.raises(BrokenPipeError):
        output.check()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """It is named, with the option."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"written to .*/file: File exists") as caught:
        RankOutput(tmp_path, BOTH, [0], {0}, Kept(), Kept(), tmp_path / "file")
    assert "--log-dir" in str(caught.value)
