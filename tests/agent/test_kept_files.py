"""What ranks of another host leave lies on the first one as if its own had left it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phantora_py.agent.kept_files import STOPPED_CALL, KeptFiles, keep, read_uses
from phantora_py.launch.unsimulated import FILE as UNSIMULATED
from sim_server import simulation_pb2 as messages
from sim_server.errors import InternalError

MEMORY = {"pss_bytes": {"5": 7}, "total_bytes": 9, "limit_bytes": None}
DEPENDED = [{"rank": 5, "guesses": 1, "slept_s": 0.0}]


class Link:
    """To a first host whose run directory is `run_dir`."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.pieces = 0

    def send(self, message: messages.FromAgent) -> None:
        for parcel in message.parcels.parcels:
            self.pieces += 1
            keep(self._run_dir, parcel.rank, parcel.kept)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """The run directories of the first host and of another, with traces wanted."""
    for name in ("first", "other"):
        (tmp_path / name / "execution-traces").mkdir(parents=True)
    return tmp_path / "first", tmp_path / "other"


def test_files_come_whole(places: tuple[Path, Path]) -> None:
    """In as many messages as it takes, after what is there already."""
    first, other = places
    trace = Path("execution-traces/rank-5.json")
    (other / trace).write_bytes(bytes(range(256)) * 10_000)
    (first / UNSIMULATED).write_text("0 0\n")
    (other / UNSIMULATED).write_text("5 1\n")
    link = Link(first)
    KeptFiles(link, other, [5], "far", 2).send(MEMORY, DEPENDED)
    assert (first / trace).read_bytes() == (other / trace).read_bytes()
    assert (first / UNSIMULATED).read_text() == "0 0\n5 1\n"
    assert link.pieces == 5
    (use,) = read_uses(first, 3)
    assert (use.host, use.index, use.host_memory) == ("far", 2, MEMORY)
    assert use.by_machine == DEPENDED
    assert use.core_seconds > 0


def test_the_first_word_of_a_call_counts(places: tuple[Path, Path]) -> None:
    first, other = places
    (first / STOPPED_CALL).write_text("one")
    (other / STOPPED_CALL).write_text("two")
    KeptFiles(Link(first), other, [5], "far", 1).send(MEMORY, DEPENDED)
    assert (first / STOPPED_CALL).read_text() == "one"


@pytest.mark.parametrize(
    "name",
    ["../token", "token", "execution-traces/rank-6.json", "host-1.json/x", "/etc/passwd", ""],
)
def test_no_other_file_is_written(places: tuple[Path, Path], name: str) -> None:
    """Nor the trace of a rank that is not the sender's."""
    kept = messages.KeptFile(name=name, content=b"!")
    with pytest.raises(ValueError, match="for the run directory"):
        keep(places[0], 5, kept)


USE = {
    **{"host": "far", "index": 1, "core_seconds": 1.5},
    **{"host_memory": MEMORY, "by_machine": DEPENDED},
}


@pytest.mark.parametrize(
    ("name", "told", "fault"),
    [
        ("host-1.json", {**USE, "core_seconds": "many"}, "core_seconds: "),
        ("host-1.json", {**USE, "host_memory": {"total_bytes": 9}}, "pss_bytes"),
        ("host-1.json", {**USE, "more": 1}, "more"),
        ("host-2.json", USE, "index: 1 is another host's"),
        ("host-2.json", {**USE, "index": 2}, "index: 2 is another host's"),
        ("host-1.json", [], "host-1.json: "),
    ],
)
def test_what_a_host_tells_of_itself_is_checked(
    tmp_path: Path, name: str, told: object, fault: str
) -> None:
    (tmp_path / name).write_text(json.dumps(told))
    with pytest.raises(InternalError, match=fault):
        read_uses(tmp_path, 2)


def test_half_a_host_is_none(tmp_path: Path) -> None:
    (tmp_path / "host-1.json").write_text(json.dumps(USE)[:-9])
    with pytest.raises(InternalError, match="it is not JSON"):
        read_uses(tmp_path, 2)
