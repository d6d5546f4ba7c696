"""Jobs of Slurm: #SBATCH lines, options of sbatch, and the names of nodes."""

import pytest

from phantora_py.launchers.sbatch import read_job, variables_of_job
from phantora_py.rank.scontrol import expanded, main
from sim_server.errors import UsageError

JOB = "#!/bin/bash\n#SBATCH -N 2 -J job\n#SBATCH --gres=gpu:8 # all\n# SBATCH -N 9\n"


def test_variables() -> None:
    """Lines count, options before the script beat them, and comments are none."""
    variables = variables_of_job(read_job((), JOB), {})
    expected = {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "node[0-1]", "SLURM_JOB_NAME": "job"}
    assert {name: variables[name] for name in expected} == expected
    assert variables["SLURM_GPUS_ON_NODE"] == "8"
    assert "SLURM_NTASKS_PER_NODE" not in variables
    given = read_job(["--nodes=3", "--ntasks-per-node", "8", "dir/job.sh", "a"], JOB)
    assert given.rest == ("dir/job.sh", "a")
    variables = variables_of_job(given, {})
    assert variables["SLURM_NNODES"] == "3"
    assert variables["SLURM_NTASKS"] == "24"


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["--array=1-4", "job.sh"], "", "--array cannot be simulated: each of its jobs"),
        (["--wrap", "x"], "", "--wrap cannot be simulated"),
        ([], "#SBATCH --node=2\n", "has no option --node |may mean"),
        ([], "#SBATCH nodes\n", "say nodes, which is no option"),
    ],
)
def test_wrong_options_are_explained(arguments: list[str], text: str, message: str) -> None:
    """A wrong option is a usage error, wherever it stands."""
    with pytest.raises(UsageError, match=message):
        read_job(arguments, text)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("node0", ["node0"]),
        ("node[0-2,7],other", ["node0", "node1", "node2", "node7", "other"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
    ],
)
def test_names_of_nodes(nodes: str, names: list[str]) -> None:
    """Ranges are written out, with their zeros."""
    assert list(expanded(nodes)) == names


def test_scontrol(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows one thing, and says so of others."""
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[0-1]")
    assert main(["show", "hostnames"]) == 0
    assert capsys.readouterr().out == "node0\nnode1\n"
    assert main(["show", "job", "1"]) == 1
    assert "only `scontrol show hostnames` works" in capsys.readouterr().err
