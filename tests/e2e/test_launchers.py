"""Programs that are started by their own documented commands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "started.py"
BIN = Path(sys.executable).parent


def started(phantora: Phantora, *words: str, **variables: str) -> Run:
    """A run of the command as it stands."""
    command = [str(PROGRAM) if word == "PROGRAM" else word for word in words]
    return phantora.run([], [], {"PATH": f"{BIN}:/usr/bin:/bin", **variables}, whole=command)


def places(run: Run) -> list[str]:
    """What the ranks said of themselves, in order."""
    assert run.exit_code == 0, run.errors
    return sorted(re.findall(r"rank \d+ of \d+, \d+ on \S+: .*", run.output))


def expected(ranks: int, nodes: int, said: str) -> list[str]:
    each = ranks // nodes
    return [
        f"rank {rank} of {ranks}, {rank % each} on node{rank // each}: {float(ranks)} {said}"
        for rank in range(ranks)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's folder with its launcher scripts."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "inner").mkdir()
    (folder / "inner" / "run.sh").write_text(
        f'cd "$(dirname "$0")"\nexport NOTE=inner\ntorchrun --nproc-per-node 2 {PROGRAM} a b\n'
        "echo ended with $?\n"
    )
    (folder / "Makefile").write_text(f"train:\n\tbash {folder}/inner/run.sh\n")
    (folder / "module.sh").write_text(
        f"export PYTHONPATH=$PWD\npython -c 'print(40 + 2)'\n"
        f"python -m torch.distributed.run {PROGRAM} && echo went on\n"
    )
    (folder / "twice.sh").write_text(f"{BIN}/torchrun {PROGRAM} 1\n{BIN}/torchrun {PROGRAM} 2\n")
    (folder / "nothing.sh").write_text("if false; then torchrun x.py; fi\nexit 3\n")
    (folder / "fails.sh").write_text(f"torchrun {PROGRAM} && exit 5\n")
    (folder / "stops.sh").write_text(f"set -e\ntorchrun {PROGRAM} fail\necho never\n")
    return folder


def test_a_script_that_calls_torchrun(phantora: Phantora, folder: Path) -> None:
    """The script runs once; its torchrun is the launch, with its directory and variables."""
    run = started(phantora, "bash", str(folder / "inner" / "run.sh"))
    assert places(run) == expected(2, 1, f"['a', 'b'] inner {folder / 'inner'}")
    assert run.output.count("ended with 0") == 1
    assert run.data.run["command"][0] == "torchrun"


def test_a_makefile_that_calls_a_script(phantora: Phantora, folder: Path) -> None:
    """However many programs lie between."""
    run = started(phantora, "make", "-f", str(folder / "Makefile"), "train")
    assert len(places(run)) == 2


def test_python_in_a_script(phantora: Phantora, folder: Path) -> None:
    """`python -m torch.distributed.run` is recognised; other programs run as they are."""
    run = started(phantora, "bash", "-e", str(folder / "module.sh"))
    assert places(run) == expected(1, 1, f"[]  {phantora.directory}")
    assert run.output.count("42\n") == run.output.count("went on\n") == 1


def test_a_launcher_by_its_path(phantora: Phantora) -> None:
    """A launcher that is not looked up in PATH is recognised, too."""
    run = started(phantora, "env", "NOTE=env", str(BIN / "torchrun"), "PROGRAM", "x")
    assert places(run) == expected(1, 1, f"['x'] env {phantora.directory}")


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("twice.sh", 2, "starts a second launch: .*torchrun .*started.py 2. A run is one launch"),
        ("nothing.sh", 2, "names torchrun, but ended with exit code 3 before it had started it"),
        ("fails.sh", 4, "ended with exit code 5 after its launch had ended well"),
        ("stops.sh", 4, "Rank 0 ended with exit code 9"),
    ],
)
def test_scripts_that_go_wrong(
    phantora: Phantora, folder: Path, script: str, code: int, message: str
) -> None:
    """What cannot be simulated, or fails, is said, and nothing is left."""
    run = started(phantora, "bash", str(folder / script))
    assert (run.exit_code, bool(re.search(message, run.errors))) == (code, True), run.errors
    assert "never" not in run.output


def test_mpirun(phantora: Phantora) -> None:
    """Programs that read OMPI_* find their place; this machine's name is the first node's."""
    words = ["mpirun", "-np", "4", "-N", "2", "-x", "NOTE=mpi", "-x", "MASTER_ADDR=localhost"]
    run = started(phantora, *words, sys.executable, "PROGRAM")
    assert places(run) == expected(4, 2, f"[] mpi {phantora.directory}")


def test_mpi4py_is_refused(phantora: Phantora, tmp_path: Path) -> None:
    """It would find one rank, and the program would go on."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    (tmp_path / "mpi4py" / "MPI.py").write_text(
        "class COMM_WORLD:\n    @staticmethod\n    def Get_size():\n        return 1\n"
    )
    program = tmp_path / "program.py"
    program.write_text("import torch\nfrom mpi4py import MPI\nprint(MPI.COMM_WORLD.Get_size())\n")
    run = started(phantora, "mpirun", "-np", "2", sys.executable, str(program))
    assert run.exit_code == 4
    assert "mpi4py finds 1 rank of 2: there is no MPI library" in run.errors
    run = started(phantora, "mpirun", "-np", "1", sys.executable, str(program))
    assert (run.exit_code, run.output) == (0, "1\n"), run.errors


def test_srun(phantora: Phantora) -> None:
    """Programs that read SLURM_* find their place, and the nodes of their job."""
    words = ["srun", "-N2", "--ntasks-per-node=1", "--export=ALL,NOTE=srun"]
    run = started(phantora, *words, sys.executable, "PROGRAM")
    assert places(run) == expected(2, 2, f"[] srun {phantora.directory}")


@pytest.mark.parametrize("command", [["bash"], ["sbatch", "--job-name=mine"]])
def test_a_job_s_script(phantora: Phantora, tmp_path: Path, command: list[str]) -> None:
    """Its #SBATCH lines say how large the job is; it finds the names of its nodes."""
    job = tmp_path / "job.sh"
    job.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8\n#SBATCH --ntasks-per-node=1  # each\n"
        "#SBATCH -J named\n#SBATCH --mail-type=END\n"
        'export NOTE="$SLURM_JOB_NAME-$SLURM_NNODES"\n'
        'names=$(scontrol show hostnames "$SLURM_JOB_NODELIST")\n'
        'export MASTER_ADDR=$(echo "$names" | head -n 1)\n'
        f"srun {sys.executable} {PROGRAM}\n"
    )
    run = started(phantora, *command, str(job))
    name = "mine" if len(command) == 2 else "named"
    assert places(run) == expected(2, 2, f"[] {name}-2 {phantora.directory}")


def test_srun_of_torchrun(phantora: Phantora) -> None:
    """srun starts a torchrun on each node, and these the ranks."""
    inner = ["torchrun", "--nnodes", "2", "--nproc-per-node", "2", "PROGRAM"]
    run = started(phantora, "srun", "-N", "2", "--ntasks-per-node=1", *inner, NOTE="both")
    assert places(run) == expected(4, 2, f"[] both {phantora.directory}")


def test_accelerate(phantora: Phantora, tmp_path: Path) -> None:
    """Its file and its options say how many ranks there are, and what they do."""
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    config = tmp_path / "accelerate.yaml"
    config.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 2\n"
        "num_machines: 1\nmachine_rank: 0\nmixed_precision: bf16\nuse_cpu: false\n"
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
        "  fsdp_transformer_layer_cls_to_wrap: Block\n"
    )
    words = ["accelerate", "launch", "--config_file", str(config)]
    run = started(phantora, *words, str(PROGRAMS / "with_accelerate.py"))
    assert run.exit_code == 0, run.errors
    assert "FSDP bf16 2" in run.output
    kinds = {one["kind"] for one in run.data.operations}
    assert {"all_gather", "reduce_scatter"} <= kinds
    run = started(phantora, *words, "--num_processes", "1", str(PROGRAMS / "with_accelerate.py"))
    assert "FSDP bf16 1" in run.output, run.errors
    wrong = started(phantora, "accelerate", "launch", "--no_such_option", "PROGRAM")
    assert wrong.exit_code == 2
    other = started(phantora, "accelerate", "config")
    assert "`accelerate config` starts no ranks" in other.errors


def test_restarts(phantora: Phantora) -> None:
    """Where a rank fails all start again; the report is of the last attempt, and says so."""
    command = ["torchrun", "--max-restarts", "2", "--nproc-per-node", "2"]
    run = started(phantora, *command, str(PROGRAMS / "restarted.py"), "1")
    assert run.exit_code == 0, run.errors
    assert "attempt 0 of 2 step 3" in run.output
    (restart,) = run.summary["restarts"]
    assert restart.startswith("Rank 1 ended with exit code 1")
    steps_ms = [float(one) for one in re.findall(r"attempt 1 of 2 step \d ([\d.]+)", run.output)]
    assert len(steps_ms) == 6
    assert run.summary["iterations"]["median_ns"] == pytest.approx(steps_ms[-1] * 1e6, rel=0.01)
    assert b"attempt 0" not in b"".join(run.data.log(0).values())


def test_restarts_that_do_not_help(phantora: Phantora) -> None:
    """The last failure ends the run, and the report says how often it was tried."""
    command = ["torchrun", "--max-restarts", "1", "--nproc-per-node", "2"]
    run = started(phantora, *command, str(PROGRAMS / "restarted.py"), "9")
    assert run.exit_code == 4
    assert "attempt 1 fails" in run.errors
    assert len(run.summary["restarts"]) == 1
