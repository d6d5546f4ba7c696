"""`phantora resimulate`: what it refuses. What it does is in tests/e2e and tests/sim_server."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from idle_recording import make_recording

from phantora_py.cli import main
from phantora_py.data import RunData


def error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said about a mistake; exit code 2."""
    assert main(["resimulate", *words]) == 2
    return " ".join(capsys.readouterr().err.split())


def test_another_output_is_made_and_the_recording_stays(tmp_path: Path) -> None:
    """The default name lies beside it."""
    path = tmp_path / "a.phr"
    make_recording(path)
    before = path.read_bytes()
    assert main(["resimulate", str(path), "--quiet"]) == 0
    with zipfile.ZipFile(tmp_path / "a.resimulated.phr") as archive:
        run = json.loads(archive.read("run.json"))
        assert "exit_code" not in json.loads(archive.read("start.json"))
    assert run["resimulation"] == {
        **{"of": "a.phr", "cluster_name": "h200", "same_settings": True, "same_history": True},
        **{"polls": 0, "outside_waits": 0, "time_reads": 0, "not_ready": 0},
        "what_if": {"environment": {}, "host_time": None, "kernels": {}, "parts": {}},
    }
    assert path.read_bytes() == before


def test_the_recording_is_not_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By whichever name it goes."""
    path = tmp_path / "a.phr"
    make_recording(path)
    assert "is what is read" in error(capsys, str(path), "-o", f"{tmp_path}/./a.phr")


def test_a_recording_that_broke_off(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Is simulated as far as it goes, and the report says so."""
    path = tmp_path / "a.phr"
    make_recording(path)
    whole = path.read_bytes()
    header_bytes = 30  # before a member's name
    path.write_bytes(whole[: whole.index(b"exits.json") - header_bytes])
    assert main(["resimulate", str(path)]) == 0
    said = capsys.readouterr().out
    assert "recorded on h200, as far as the recording goes: it broke off\n" in said


def test_kernels_of_another_architecture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They were chosen for the recorded one; both are named."""
    path = tmp_path / "a.phr"
    make_recording(path)
    said = error(capsys, str(path), "--cluster", "a100")
    assert "compute capability 9.0, 132 multiprocessors" in said
    assert "compute capability 8.0, 108 multiprocessors" in said
    assert [one.name for one in tmp_path.iterdir()] == ["a.phr"]


def test_memory_that_would_not_suffice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What the program would do about it is not recorded."""
    path = tmp_path / "a.phr"
    make_recording(path, peak_bytes=100 << 30)
    said = error(capsys, str(path), "--cluster", "h100")
    assert "needs 107,374,182,400 bytes of device memory" in said


def test_a_cluster_that_is_too_small(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The ranks keep their nodes."""
    path = tmp_path / "a.phr"
    make_recording(path)
    cluster = tmp_path / "one.toml"
    cluster.write_text('base = "h200"\ngpus_per_node = 1\n[nic]\nper_node = 1\n')
    assert "GPUs" in error(capsys, str(path), "--cluster", str(cluster))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "NCCL_ALGO"], "'NCCL_ALGO' is not a variable"),
        (["--env", "CUDA_VISIBLE_DEVICES=0"], "Only NCCL's variables can be changed afterwards"),
        (["--env", "NCCL_NTHREADS=64"], "the model of NCCL does not know it"),
        (["--env", "NCCL_ALGO=Rings"], "'rings' is not modelled"),
        (["--env", "NCCL_IB_HCA=eth"], "leaves no NIC"),
        (["--scale-kernel", "flash*"], "write for example 'flash*=0.8'"),
        (["--scale-kernel", "flash*=0"], "a factor above 0"),
        (["--scale-kernel", "flash*=0.8"], "flash*: no kernel of"),
        (["--scale", "nvlnk=2"], "did you mean 'nvlink'?"),
        (["--scale", "fabric"], "there are memory, nvlink, nic, latency, host."),
        (["--scale", "nic=-1"], "a factor above 0 on the bandwidth of NICs"),
        (["--scale", "nic=inf"], "write for example nic=1.1"),
        (["--scale", "nic=2", "--scale", "nic=3"], "is given twice"),
    ],
)
def test_what_cannot_be_changed_afterwards(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], message: str
) -> None:
    """Is said before anything is simulated, with what can."""
    path = tmp_path / "a.phr"
    make_recording(path)
    assert message in error(capsys, str(path), *words)
    assert [one.name for one in tmp_path.iterdir()] == ["a.phr"]


def test_no_change_is_the_recorded_run(tmp_path: Path) -> None:
    """A variable is unset that was not set, and the cluster is named that it was."""
    path = tmp_path / "a.phr"
    make_recording(path)
    words = ["--env", "NCCL_ALGO=", "--cluster", "h200", "--quiet", "-o", str(tmp_path / "b.phr")]
    assert main(["resimulate", str(path), *words]) == 0
    made = RunData(tmp_path / "b.phr").run["resimulation"]
    assert (made["same_settings"], made["same_history"]) == (True, True)
