"""One run on several hosts: the same as on one, and ended as one.

The hosts are this machine, twice; the second has its own agent, run directory and network of
simulated nodes, and is reached over a link of one millisecond each way.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest
from phantora_runs import EXAMPLES, PROGRAMS, Phantora, Run

from phantora_py.isolation import probe

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not probe.probe().own_network,
        reason="simulated nodes have no network of their own on this machine",
    ),
]

SMALL = ["--layers", "2", "--steps", "4", "--batch", "2"]
FAR = {
    "PHANTORA_SSH": shlex.join([sys.executable, str(Path(__file__).parent / "far_host.py")]),
    "FAR_HOST_MS": "1",
}
HOSTS = ["--hosts", "localhost,far", "--listen", "127.0.0.1"]
FAILING = PROGRAMS / "failing.py"
NODES = ["--nodes", "2", "--gpus-per-node", "1"]
# For the end of a run, on a loaded machine, once somebody has gone.
ENDED_S = 15.0
QUICK_S = 60.0

PROGRAMS_OF_MANY: Mapping[str, Sequence[str | Path]] = {
    "ddp": [EXAMPLES / "train_gpt_ddp.py", *SMALL],
    "fsdp": [EXAMPLES / "train_gpt_fsdp.py", *SMALL],
    "pipeline": [PROGRAMS / "pipelining.py", "1F1B", "4"],
    "store": [PROGRAMS / "store_across_nodes.py"],
}


def on_hosts(phantora: Phantora, options: Sequence[str], command: Sequence[str | Path]) -> Run:
    return phantora.run([*HOSTS, *options], command, FAR)


@pytest.mark.parametrize("name", PROGRAMS_OF_MANY)
def test_equal_to_one_host(phantora: Phantora, name: str) -> None:
    """The whole history of the run."""
    options, command = ["--nodes", "2", "--gpus-per-node", "2"], PROGRAMS_OF_MANY[name]
    one = phantora.run(options, command)
    several = on_hosts(phantora, options, command)
    assert one.exit_code == 0, one.errors
    assert several.exit_code == 0, several.errors
    assert several.data.run["digest"] == one.data.run["digest"]
    assert sorted(several.output.splitlines()) == sorted(one.output.splitlines())


@pytest.mark.parametrize(("case", "exit_code"), [("raise", 4), ("kill", 4), ("leave", 5)])
def test_a_rank_of_another_host_fails(
    failing_phantora: Phantora, case: str, exit_code: int
) -> None:
    """It is told as that of a rank here."""
    run = on_hosts(failing_phantora, NODES, [FAILING, case])
    ours = [line for line in run.errors.splitlines() if line.startswith("phantora: ")]
    assert run.exit_code == exit_code, run.errors
    assert len(ours) == 1, run.errors
    if case == "raise":
        start = "phantora: a rank failed: Rank 1 ended with exit code 1. It was the first to fail; "
        assert ours[0].startswith(start)
        assert "ValueError: a bad batch" in run.data.run["message"]
    assert run.data.run["exit_code"] == exit_code


def test_a_rank_of_another_host_makes_no_progress(failing_phantora: Phantora) -> None:
    """As here: the run ends by --stall-limit, not by the ranks that were stopped for it."""
    run = on_hosts(failing_phantora, [*NODES, "--stall-limit", "3"], [FAILING, "loop"])
    assert run.exit_code == 5, run.errors
    assert "rank 1 is running without a GPU call" in run.errors
    assert "That is the --stall-limit." in run.errors
    assert run.data.run["exit_code"] == 5


def test_interrupted(failing_phantora: Phantora) -> None:
    """All hosts stop, and the data until then is kept."""
    process, path = failing_phantora.start([*HOSTS, *NODES], [FAILING, "never"], FAR)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "under way\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(QUICK_S) == 130
        assert process.stderr.read() == (
            "phantora: interrupted: every rank was stopped; the data file ends there.\n"
        )
    assert path.exists()


@pytest.mark.parametrize("victim", ["agent", "server", "phantora", "link"])
def test_somebody_is_gone(failing_phantora: Phantora, tmp_path: Path, victim: str) -> None:
    """The others end soon, and say which host is gone; the fixture looks for what is left."""
    cut = tmp_path / "cut"
    environment = {**FAR, "FAR_HOST_CUT": str(cut)}
    process, _ = failing_phantora.start([*HOSTS, *NODES], [FAILING, "never"], environment)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "under way\n"
        below = psutil.Process(process.pid).children(recursive=True)
        lines = {" ".join(child.cmdline()): child for child in below}
        began_s = time.monotonic()
        if victim == "agent":
            chosen = [one for line, one in lines.items() if line.endswith(" agent")]
            min(chosen, key=lambda one: -len(one.parents())).kill()
        elif victim == "server":
            next(one for line, one in lines.items() if "sim_server" in line).kill()
        elif victim == "phantora":
            process.kill()
        else:
            cut.touch()
        code = process.wait(QUICK_S)
        errors = process.stderr.read()
    assert time.monotonic() - began_s < ENDED_S
    if victim in {"agent", "link"}:
        assert code in {4, 70}, errors
        assert "far" in errors
    elif victim == "server":
        assert code == 70, errors


BAD: Mapping[str, tuple[list[str], dict[str, str], int, str]] = {
    "unreachable": (
        ["--hosts", "localhost,unreachable", "--listen", "127.0.0.1", *NODES],
        {},
        2,
        "Host unreachable cannot be reached by ssh: ssh: connect to host unreachable port 22",
    ),
    "another PyTorch": (
        [*HOSTS, *NODES],
        {"FAR_HOST_VERSIONS": json.dumps({"torch": "1.13"})},
        2,
        "Host far: this host has torch ",
    ),
    "too many hosts": (
        ["--hosts", "localhost,far,far", *NODES],
        {},
        2,
        "The run has 2 simulated nodes with ranks that run, and 3 hosts were named",
    ),
    "no network": ([*HOSTS, *NODES, "--network", "host"], {}, 2, "need a network of their own"),
    "no TLS": (
        ["--hosts", "localhost,far", "--listen", "10.1.2.3:4000", *NODES],
        {},
        2,
        "10.1.2.3:4000 is beyond this machine",
    ),
    "no allocation": (["--engine", "slurm", "--hosts", "2", *NODES], {}, 2, "within an allocation"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be(failing_phantora: Phantora, case: str) -> None:
    """A sentence and an exit code, before anything runs."""
    options, environment, code, sentence = BAD[case]
    run = failing_phantora.run(options, [FAILING, "leave"], {**FAR, **environment})
    assert run.exit_code == code, run.errors
    assert sentence in run.errors
    assert run.errors.count("phantora: ") == 1
    assert not run.path.exists()
