"""torchrun's command line: what is honoured, ignored and refused."""

import pytest

from phantora_py.launchers.torchrun import parse_torchrun
from sim_server.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["x.py"], {"nodes": None, "processes_per_node": 1, "program": ("x.py",)}),
        (["--nproc-per-node", "8", "x.py"], {"processes_per_node": 8}),
        (["--nproc_per_node=8", "x.py"], {"processes_per_node": 8}),
        (["--nproc-per", "gpu", "x.py"], {"processes_per_node": None}),
        (["--nnodes=4", "x.py"], {"nodes": 4}),
        (["--nnodes", "2:4", "x.py"], {"nodes": 4}),
        (["--standalone", "x.py", "--lr", "1"], {"program": ("x.py", "--lr", "1")}),
        (["-m", "pkg.train", "--nnodes", "9"], {"module": True, "nodes": None}),
        (["--no-python", "a.sh"], {"python": False, "program": ("a.sh",)}),
        (["--run-path", "x.py"], {"python": True}),
        (["--rdzv-id=job7", "--role", "trainer", "x.py"], {"run_id": "job7", "role": "trainer"}),
        (["--master_port", "29511", "x.py"], {"master_port": 29511}),
        (["--local-ranks-filter", "0,2", "x.py"], {"shown_local_ranks": frozenset({0, 2})}),
        (["-r3", "-t", "1", "x.py"], {"program": ("x.py",)}),
        (["--", "x.py"], {"program": ("x.py",)}),
        (["-m", "x", "--", "--lr", "1"], {"program": ("x", "--lr", "1")}),
        (["x.py", "--lr", "--", "1"], {"program": ("x.py", "--lr", "--", "1")}),
        (["--", "x.py", "--", "1"], {"program": ("x.py", "--", "1")}),
    ],
)
def test_options_are_understood(arguments: list[str], expected: dict[str, object]) -> None:
    """An option given in any of torchrun's spellings has torchrun's meaning."""
    command = parse_torchrun(arguments, {})
    assert {name: getattr(command, name) for name in expected} == expected


def test_launch_passes_the_local_rank() -> None:
    """torch.distributed.launch does so unless told to leave it to the environment."""
    passed = parse_torchrun(["--nproc-per-node=2", "x.py"], {}, launch=True)
    assert passed.local_rank_argument == "--local-rank={}"
    for left in (parse_torchrun(["--use_env", "x.py"], {}, launch=True), parse_torchrun(["x"], {})):
        assert left.local_rank_argument is None
    for arguments, launch in ((["--use-env", "x.py"], False), (["--no-python", "a.sh"], True)):
        with pytest.raises(UsageError, match="--use-env"):
            parse_torchrun(arguments, {}, launch)


def test_environment_supplies_defaults() -> None:
    """PET_* variables count unless the option is given."""
    environment = {"PET_NPROC_PER_NODE": "4", "PET_NNODES": "2", "PET_MODULE": "0"}
    command = parse_torchrun(["--nnodes", "3", "x.py"], environment)
    assert (command.nodes, command.processes_per_node, command.module) == (3, 4, False)


def test_restarts_are_counted() -> None:
    """By default there are none; the environment may ask for some."""
    assert parse_torchrun(["x.py"], {}).max_restarts == 0
    assert parse_torchrun(["--max-restarts=3", "x.py"], {}).max_restarts == 3
    assert parse_torchrun(["x.py"], {"PET_MAX_RESTARTS": "2"}).max_restarts == 2


def test_ignored_options_are_named_with_their_reason() -> None:
    """Nothing that the user gave is dropped without a word."""
    command = parse_torchrun(["--monitor-interval=3", "--rdzv-backend", "c10d", "x.py"], {})
    assert command.notes == (
        "torchrun --monitor-interval is ignored: phantora is told at once when a rank ends",
        "torchrun --rdzv-backend is ignored: phantora starts all nodes itself, "
        "so there is nobody to meet",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--nprocs-per-node=8", "x.py"],
            "no option --nprocs-per-node that phantora knows. Did you mean --nproc",
        ),
        (["--nn", "2"], "names no program"),
        (["--rdzv", "x.py"], "--rdzv may mean --rdzv-id, --rdzv-backend"),
        (["--nproc-per-node"], "--nproc-per-node needs a value"),
        (["--standalone=1", "x.py"], "--standalone takes no value"),
        (["--nnodes", "a", "x.py"], "--nnodes takes a number, not 'a'"),
        (["--nnodes", "3:1", "x.py"], "--nnodes takes N or MIN:MAX"),
        (["--virtual-local-rank", "x.py"], "--virtual-local-rank cannot be simulated"),
        (["-m", "--no-python", "x"], "--module or --no-python, not both"),
        ([], "names no program"),
    ],
)
def test_wrong_options_are_explained(arguments: list[str], message: str) -> None:
    """A wrong option is a usage error that says what is wrong and what is near."""
    with pytest.raises(UsageError) as caught:
        parse_torchrun(arguments, {})
    assert message in str(caught.value)
    assert caught.value.exit_code == 2
