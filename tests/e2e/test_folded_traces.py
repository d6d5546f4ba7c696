"""Chakra traces of folded runs: a file for each class, which give the run back, or one for each
rank.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from phantora_runs import EXAMPLES, Phantora, Run

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.traces.agreement import disagreements
from phantora_py.traces.folder import read_folder
from sim_server.log.history import HOST_WAIT_SPAN

pytestmark = pytest.mark.torch

PROGRAMS = Path(__file__).parent / "programs"
# Two nodes of four.
CLUSTER = ["--cluster", "h100", "--ranks", "8", "--gpus-per-node", "4"]
LLAMA: list[str | Path] = [
    EXAMPLES / "train_llama.py",
    *("--layers", "2", "--width", "256", "--hidden", "704", "--heads", "4", "--tp", "4"),
    *("--vocabulary", "1024", "--sequence", "256", "--steps", "3", "--fsdp", "2"),
]
FOLDED: dict[str, tuple[list[str], list[str | Path]]] = {
    "tp-fsdp2": (["--fold", "dp", "--mesh", "dp=2,tp=4"], LLAMA),
    "pipeline-dp": (
        ["--fold", "dp", "--mesh", "pp=2,dp=4"],
        [PROGRAMS / "pipelines.py", "hand", "2", "1"],
    ),
    "apart": (["--fold", "1", "--apart", "0,6-7"], [PROGRAMS / "ranks_that_differ.py"]),
    "experts": (["--fold", "1"], [PROGRAMS / "expert_groups.py", "8", "splits"]),
}


@pytest.fixture(scope="module")
def runs(phantora: Phantora) -> dict[str, Run]:
    """Folded runs, each with a witness."""
    made = {}
    for name, (folding, command) in FOLDED.items():
        made[name] = phantora.run([*CLUSTER, *folding, "--witness", "1"], command)
        assert made[name].exit_code == 0, made[name].errors
    return made


def simulated(folder: Path) -> RunData:
    """A folder of traces, simulated on the cluster of the runs."""
    output = folder.with_suffix(".phr")
    assert main(["resimulate", str(folder), "--cluster", "h100", "-o", str(output)]) == 0
    return RunData(output)


def work_of(data: RunData, rank: int) -> list[tuple[int, int]]:
    """When a rank's work began and ended, after the begin of its first."""
    spans = data.spans_of(rank)
    work = spans[spans["kind"] != HOST_WAIT_SPAN]
    first_ns = work["start_ns"].min()
    times_ns = ((work[name] - first_ns).tolist() for name in ("start_ns", "end_ns"))
    return sorted(zip(*times_ns, strict=True))


@pytest.mark.parametrize("name", list(FOLDED))
def test_a_file_for_each_class_gives_the_run_back(
    runs: dict[str, Run], tmp_path: Path, name: str
) -> None:
    """To the nanosecond, folded as it was; a map tells of all ranks and their groups."""
    data, folder = runs[name].data, tmp_path / "classes"
    assert main(["report", str(runs[name].path), "--chakra", str(folder)]) == 0
    ranks = data.told.ranks
    assert {one.name for one in folder.iterdir()} == {
        "ranks.json",
        *(f"chakra.{rank}.et" for rank in ranks),
    }
    assert list(disagreements(read_folder(folder))) == []
    again = simulated(folder)
    assert again.told.ranks == ranks
    assert [work_of(again, rank) for rank in ranks] == [work_of(data, rank) for rank in ranks]
    told = json.loads((folder / "ranks.json").read_text())
    assert told["files"] == {
        str(rank): f"chakra.{data.told.stand_in(rank)}.et" for rank in range(8)
    }
    for group, images in told["groups"].items():
        groups = [data.communicators[int(group)], *images]
        everybody = [rank for ranks in groups for rank in ranks]
        assert len(everybody) == len(set(everybody)) == len(groups) * len(groups[0])


@pytest.mark.parametrize("name", list(FOLDED))
def test_a_file_for_every_rank_is_of_a_run_that_is_not_folded(
    runs: dict[str, Run], tmp_path: Path, name: str
) -> None:
    """All ranks take part in it, each in its own groups, and take what their class takes. Exchanges
    among the ranks of a class end at other times for each, which a folded run does not have.
    """
    data, folder = runs[name].data, tmp_path / "ranks"
    words = ["report", str(runs[name].path), "--chakra", str(folder), "--every-rank"]
    assert main(words) == 0
    assert {one.name for one in folder.iterdir()} == {f"chakra.{rank}.et" for rank in range(8)}
    read = read_folder(folder)
    assert read.fold is None
    assert list(disagreements(read)) == []
    again = simulated(folder)
    for rank in range(8):
        found, expected = work_of(again, rank), work_of(data, data.told.stand_in(rank))
        if name == "experts":
            assert len(found) == len(expected)
            assert found[-1][1] == pytest.approx(expected[-1][1], rel=0.02)
        else:
            assert found == expected


def test_files_of_another_fold_are_refused(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a class without its file, and a file of a rank that stands for nobody."""
    folders = {}
    for name in ("tp-fsdp2", "apart"):
        folders[name] = tmp_path / name
        assert main(["report", str(runs[name].path), "--chakra", str(folders[name])]) == 0
    words = ["--cluster", "h100", "-o", str(tmp_path / "not.phr")]
    shutil.copy(folders["tp-fsdp2"] / "chakra.1.et", folders["apart"] / "chakra.1.et")
    (folders["tp-fsdp2"] / "chakra.2.et").unlink()
    shutil.copytree(folders["apart"], tmp_path / "mixed")
    (tmp_path / "mixed" / "chakra.6.et").unlink()
    capsys.readouterr()
    expected = {
        "tp-fsdp2": "lacks the trace of rank 2",
        "mixed": "lacks the trace of rank 6",
    }
    for name, message in expected.items():
        assert main(["resimulate", str(tmp_path / name), *words]) == 2
        assert message in capsys.readouterr().err
    shutil.copy(folders["tp-fsdp2"] / "chakra.1.et", folders["apart"] / "chakra.5.et")
    assert main(["resimulate", str(folders["apart"]), *words]) == 2
    assert "chakra.5.et is of a rank that its folded run has no trace of" in capsys.readouterr().err
    (folders["apart"] / "chakra.5.et").unlink()
    assert main(["resimulate", str(folders["apart"]), *words]) == 2
    assert "folded in another way" in capsys.readouterr().err
