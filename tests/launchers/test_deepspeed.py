"""DeepSpeed's command line: what is honoured, ignored and refused."""

from pathlib import Path

import pytest

from phantora_py.launchers.deepspeed import parse_deepspeed
from sim_server.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["x.py"], {"nodes": None, "processes_per_node": None, "program": ("x.py",)}),
        (["--num_gpus", "4", "x.py", "--lr", "1"], {"processes_per_node": 4}),
        (["--num_gpus=4", "--num_nodes=2", "x.py"], {"nodes": 2, "processes_per_node": 4}),
        (["--num_accelerators", "4", "x.py"], {"processes_per_node": 4}),
        (["--include", "localhost:0,2", "x.py"], {"processes_per_node": 2}),
        (["x.py", "--", "--lr", "1"], {"program": ("x.py", "--lr", "1")}),
        (["--module", "pkg.train"], {"module": True, "program": ("pkg.train",)}),
        (["--no_python", "a.sh"], {"python": False}),
        (["--no_local_rank", "x.py"], {"local_rank_argument": None}),
        (["x.py"], {"local_rank_argument": "--local_rank={}"}),
        (["--master_port", "29511", "x.py"], {"master_port": 29511}),
    ],
)
def test_options_are_understood(arguments: list[str], expected: dict[str, object]) -> None:
    """An option has DeepSpeed's meaning; without one, every GPU has a rank."""
    launch = parse_deepspeed(arguments, {})
    assert {name: getattr(launch, name) for name in expected} == expected


def test_a_file_of_hosts(tmp_path: Path) -> None:
    """Hosts are nodes, slots are ranks; --num_nodes takes the first of them."""
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\nworker-0 slots=4\nworker-1 slots=4\nworker-2 slots=4\n")
    launch = parse_deepspeed(["-H", str(hosts), "x.py"], {})
    assert (launch.nodes, launch.processes_per_node) == (3, 4)
    launch = parse_deepspeed(["-H", str(hosts), "--num_nodes", "2", "--num_gpus=2", "x.py"], {})
    assert (launch.nodes, launch.processes_per_node) == (2, 2)
    hosts.write_text("a slots=4\nb slots=8\n")
    with pytest.raises(UsageError, match="a has 4, b has 8 slots"):
        parse_deepspeed(["--hostfile", str(hosts), "x.py"], {})
    hosts.write_text("\n")
    with pytest.raises(UsageError, match="names no host"):
        parse_deepspeed(["--hostfile", str(hosts), "x.py"], {})
    with pytest.raises(UsageError, match="cannot be read"):
        parse_deepspeed(["--hostfile", str(tmp_path / "none"), "x.py"], {})


def test_ignored_options_are_named_with_their_reason() -> None:
    """Nothing that the user gave is dropped without a word."""
    launch = parse_deepspeed(["--launcher", "pdsh", "-q", "x.py"], {})
    assert launch.notes == (
        "deepspeed --launcher is ignored: phantora starts every node of the job, without ssh",
        "deepspeed --quiet is ignored: there is no launcher that logs",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--autotuning", "run", "x.py"], "--autotuning cannot be simulated: it starts many"),
        (["--exclude", "localhost:1", "x.py"], "--exclude localhost:1 cannot be simulated"),
        (["--include", "a:0@b:1", "x.py"], "--include a:0@b:1 cannot be simulated"),
        (["--include", "localhost:0", "--num_gpus", "2", "x.py"], "not understood beside"),
        (["--num_gpu", "two", "x.py"], "--num-gpus takes a number of at least 1, not 'two'"),
        (["--numgpus", "2", "x.py"], "no option --numgpus that phantora knows. Did you mean"),
        ([], "names no script"),
    ],
)
def test_wrong_options_are_explained(arguments: list[str], message: str) -> None:
    """A wrong option is a usage error that says what is wrong and what to do."""
    with pytest.raises(UsageError, match=message.replace("+", r"\+")):
        parse_deepspeed(arguments, {})
