"""Folders of Chakra traces: what is read, what is refused and how it is said."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from made_traces import all_reduce, exchange, host, node, receive, send, write_folder

from phantora_py.cli import main
from phantora_py.traces.agreement import disagreements
from phantora_py.traces.folder import read_folder
from sim_server.chakra.execution_trace_pb2 import MEM_LOAD_NODE, GlobalMetadata, Node
from sim_server.errors import UsageError

PROGRAM = [host(1, micros=3), node(2, [1], micros=10), all_reduce(3, [2]), host(4, [3])]


def refusal(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    """What is said of a folder that is not simulated; exit code 2, and nothing is left."""
    output = folder.parent / "out.phr"
    words = ["resimulate", str(folder), "--cluster", "h100", "-o", str(output), "--quiet"]
    assert main(words) == 2
    assert not output.exists()
    return " ".join(capsys.readouterr().err.split())


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Packed ones, too; nodes come after those that they depend on."""
    path = write_folder(tmp_path / "a", [PROGRAM[::-1], PROGRAM])
    packed = path / "trace.1.et"
    (path / "trace.1.et.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    folder = read_folder(path)
    assert [[step.id for step in steps] for steps in folder.steps] == [[1, 2, 3, 4]] * 2
    assert folder.groups["0"] == [0, 1]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([host(1), host(2, [7])], "node 2 depends on node 7, which is not there"),
        ([host(1, [2]), host(2, [1])], "in a circle"),
        ([host(1), host(1)], "1 nodes have the numbers of others"),
        ([host(1, name="")], "node 1 has no name"),
        ([node(1, kind=MEM_LOAD_NODE)], "not simulated: MEM_LOAD_NODE"),
        ([all_reduce(1, group="7")], "nothing says which ranks the process group '7' has"),
        ([node(1, signature=5)], "has the signature 5, which is not in its metadata"),
        ([exchange(1, [1, 2], [1, 2])], "not a split for each of the 1 ranks"),
        ([receive(1, 5, 0)], "rank 5 is not in process group"),
    ],
)
def test_damaged_graphs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, nodes: list[Node], said: str
) -> None:
    """A sentence names the file or the folder, and the node."""
    path = write_folder(tmp_path / "a", [nodes])
    found = refusal(capsys, path)
    assert said in found
    assert str(path) in found


def cut(file: Path) -> None:
    """The end of it is lost."""
    file.write_bytes(file.read_bytes()[:-5])


def cut_packed(file: Path) -> None:
    """Likewise, packed."""
    file.write_bytes(gzip.compress(file.read_bytes())[:-9])


def other_version(file: Path) -> None:
    """A version that there is not yet."""
    content = GlobalMetadata(version="9.1").SerializeToString()
    file.write_bytes(bytes([len(content)]) + content)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, "is cut short"),
        (cut_packed, "is cut short or damaged"),
        (other_version, "is not a Chakra trace of a known version: its metadata says '9.1'"),
        (lambda file: file.write_bytes(b""), "is empty"),
        (lambda file: file.write_text('{"schema": "1.1.1-chakra.0.0.4"}'), "Chakra trace"),
        (lambda file: file.unlink(), "lacks the trace of rank 0"),
        (lambda file: file.rename(file.with_name("trace.5.et")), "lacks the trace of rank 0"),
        (lambda file: file.with_name("other.1.et").touch(), "are both of rank 1"),
    ],
)
def test_damaged_files(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    spoil: Callable[[Path], object],
    said: str,
) -> None:
    """The file is named."""
    path = write_folder(tmp_path / "a", [PROGRAM, PROGRAM])
    spoil(path / "trace.0.et")
    found = refusal(capsys, path)
    assert said in found
    assert str(path) in found


def test_ranks_that_are_missing_by_what_files_say(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Those at the end leave no hole."""
    path = write_folder(tmp_path / "a", [PROGRAM], {"ranks": 2, "rank": 0})
    assert "is of a run of 2 ranks" in refusal(capsys, path)
    path = write_folder(tmp_path / "b", [PROGRAM], {"ranks": 1, "rank": 3})
    assert "is the trace of rank 3" in refusal(capsys, path)


@pytest.mark.parametrize(
    "fold",
    [
        "{",
        "[]",
        "7",
        '{"mesh": []}',
        '{"mesh": [["dp", 2]]}',
        '{"mesh": [["dp", 1000000000, true]], "witnesses": [3]}',
        '{"mesh": [["dp", 1e999, true]]}',
        '{"mesh": [["dp", 2, true]], "apart": ["0-9"]}',
        '{"mesh": [["dp", 2, true]], "apart": 7}',
    ],
)
def test_damaged_folds(capsys: pytest.CaptureFixture[str], tmp_path: Path, fold: str) -> None:
    """Of a run that was folded, the files say how: not everything is a fold, or a small one."""
    path = write_folder(tmp_path / "a", [PROGRAM], {"fold": fold})
    assert "trace.0.et is damaged: fold: " in refusal(capsys, path)


def test_traces_of_which_sizes_meant_something_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They are of an older version of ours, and nothing else in them says so."""
    path = write_folder(tmp_path / "a", [PROGRAM], {"producer": "phantora 0.1.0"})
    assert "is of an older phantora" in refusal(capsys, path)


def test_a_folder_without_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What makes some is said."""
    (tmp_path / "a").mkdir()
    assert "has neither Chakra traces" in refusal(capsys, tmp_path / "a")


def test_traces_that_agree(tmp_path: Path) -> None:
    """Splits are a matrix and its transpose; transfers are in order for each pair."""
    ranks = [
        [exchange(1, [1, 2], [1, 3]), all_reduce(2), send(3, 0, 1)],
        [exchange(1, [3, 4], [2, 4]), all_reduce(2), receive(3, 0, 1)],
    ]
    assert list(disagreements(read_folder(write_folder(tmp_path / "a", ranks)))) == []


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (all_reduce(1, size=8), all_reduce(1, size=4), "operation 0: rank 0: node 1 of 8 bytes"),
        (all_reduce(1), host(1), "rank 1: nothing"),
        (send(1, 0, 1), host(1), "of 64 bytes is sent and nothing received"),
        (send(1, 0, 1, size=8), receive(1, 0, 1), "of 8 bytes is sent and node 1 of 64"),
        (send(1, 1, 0), receive(1, 1, 0), "rank 0, node 1: it is of ranks 1 and 0"),
        (exchange(1, [1, 2], [1, 3]), exchange(1, [2, 4], [2, 4]), "splits do not fit"),
    ],
)
def test_traces_that_do_not_agree(tmp_path: Path, one: Node, other: Node, said: str) -> None:
    """The first fault of a group or pair is told."""
    found = list(disagreements(read_folder(write_folder(tmp_path / "a", [[one], [other]]))))
    assert any(said in sentence for sentence in found), found


def test_groups_that_files_disagree_about(tmp_path: Path) -> None:
    """Of which ranks a group is, every file says the same."""
    path = write_folder(tmp_path / "a", [PROGRAM], {"process_group/3": [0, 1]})
    with pytest.raises(UsageError, match=r"process_group/3 names ranks that there are not"):
        read_folder(path)


@pytest.mark.parametrize("seed", range(8))
def test_bytes_that_are_wrong(tmp_path: Path, seed: int) -> None:
    """Wherever they are, the traces are refused, or simulated as what they are now."""
    rng = random.Random(seed)
    for number in range(20):
        ranks = [[*PROGRAM, send(5, 0, 1)], [*PROGRAM, receive(5, 0, 1)]]
        told = {"process_group/0": [0, 1], "nodes": 1, "gpus_per_node": 2}
        path = write_folder(tmp_path / str(number), ranks, told)
        content = bytearray((path / "trace.0.et").read_bytes())
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 127, 128, 255))
        (path / "trace.0.et").write_bytes(content)
        output = tmp_path / f"{number}.phr"
        words = ["resimulate", str(path), "--cluster", "h100", "-o", str(output), "--quiet"]
        exit_code = main(words)
        assert exit_code in (0, 2, 5)
        assert output.exists() == (exit_code != 2)
