"""srun's command line, and the variables of its tasks."""

import pytest

from phantora_py.launchers.launch import Place
from phantora_py.launchers.srun import node_list, parse_srun
from sim_server.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["x"], {}, (1, 1)),
        (["-n", "8", "x"], {}, (1, 8)),
        (["-n8", "-N2", "x"], {}, (2, 4)),
        (["--nodes=2", "--ntasks-per-node=8", "x"], {}, (2, 8)),
        (["-N", "1-4", "--ntasks-per-node", "8", "x"], {}, (4, 8)),
        (["-n16", "--ntasks-per-node=8", "x"], {}, (2, 8)),
        (["-N2", "--gres=gpu:h100:4", "--ntasks-per-gpu=1", "x"], {}, (2, 4)),
        (["-w", "a,b", "--ntasks-per-node=2", "x"], {}, (2, 2)),
        (["x"], {"SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "8"}, (2, 8)),
        (["x"], {"SLURM_NNODES": "2", "SLURM_NTASKS": "8"}, (2, 4)),
        (["-N1", "--ntasks-per-node=1", "x"], {"SLURM_NTASKS": "8"}, (1, 1)),
        (["-l", "--exclusive", "-K1", "-p", "gpu", "x"], {}, (1, 1)),
    ],
)
def test_sizes(
    arguments: list[str], environment: dict[str, str], expected: tuple[int, int]
) -> None:
    """Nodes and tasks on each follow from the options, and else from what the job has said."""
    launch = parse_srun(arguments, environment)
    assert (launch.nodes, launch.processes_per_node) == expected
    assert launch.program == ("x",)


@pytest.mark.parametrize(
    ("options", "visible"),
    [
        (["--gpus-per-task=2"], "2,3"),
        (["--gpus-per-task=2", "--gpu-bind=none"], None),
        (["--gpus-per-node=8"], None),
    ],
)
def test_gpus_of_a_task(options: list[str], visible: str | None) -> None:
    """Slurm lets a task see its own, if it was told how many these are."""
    launch = parse_srun(["-N2", "--ntasks-per-node=4", *options, "x"], {})
    place = Place(5, 8, 1, 2, 1, 4, ("node0", "node1"), "10.88.1.1", 29500)
    assert launch.rank_variables(place).get("CUDA_VISIBLE_DEVICES") == visible


def test_variables() -> None:
    """A task finds its place and its job; torchrun's variables are not set."""
    launch = parse_srun(["-N2", "--ntasks-per-node=4", "-J", "job", "--export=ALL,A=1", "x"], {})
    place = Place(5, 8, 1, 2, 1, 4, ("node0", "node1"), "10.88.1.1", 29500)
    variables = launch.rank_variables(place)
    expected = {
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_NTASKS": "8",
        "SLURM_NNODES": "2",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_TASKS_PER_NODE": "4(x2)",
        "SLURM_JOB_NAME": "job",
        "SLURM_JOB_NODELIST": "node[0-1]",
        "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_GTIDS": "4,5,6,7",
        "SLURMD_NODENAME": "node1",
    }
    assert {name: variables[name] for name in expected} == expected
    assert launch.variables == {"A": "1"}
    assert not launch.torchrun_variables


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["node0"], "node0"),
        (["node0", "node1", "node2"], "node[0-2]"),
        (["10.88.1.1", "10.88.1.2"], "10.88.1.1,10.88.1.2"),
    ],
)
def test_lists_of_nodes(names: list[str], expected: str) -> None:
    """Names are written as Slurm does, addresses one by one."""
    assert node_list(names) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "3", "-N", "2", "x"], "the same number each"),
        (["--multi-prog", "x"], "--multi-prog cannot be simulated"),
        (["--container-image=a.sqsh", "x"], "tasks in containers"),
        (["--ntask-per-node=8", "x"], "no option --ntask-per-node .* Did you mean --ntasks-per"),
        (["-N2"], "names no program"),
        (["--nodes=two", "x"], "--nodes takes a number"),
    ],
)
def test_wrong_options_are_explained(arguments: list[str], message: str) -> None:
    """A wrong option is a usage error that says what is wrong and what is near."""
    with pytest.raises(UsageError, match=message):
        parse_srun(arguments, {})
