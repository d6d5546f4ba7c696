"""One run on several hosts: the same as on one, and ended as one.

The hosts are this machine, several times; all but the first have their own agent, run directory and
network of simulated nodes, and are reached over links of one millisecond each way.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from certificates import make_authority, make_certificate
from phantora_runs import EXAMPLES, PROGRAMS, Phantora, Run

from phantora_py import __version__
from phantora_py.data import RunData
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
    "PHANTORA_FAR_HOST_MS": "1",
}
HOSTS = ["--hosts", "localhost,far", "--listen", "127.0.0.1"]
FAILING = PROGRAMS / "failing.py"
NODES = ["--nodes", "2", "--gpus-per-node", "1"]
# For the end of a run, on a loaded machine, once somebody has gone.
ENDED_S = 15.0
QUICK_S = 60.0

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)

STAGES = ["--fold", "dp", "--mesh", "pp=2,dp=4,tp=1"]
# Hosts, nodes, GPUs of each, other options, command.
PROGRAMS_OF_MANY: Mapping[str, tuple[int, int, int, list[str], list[str | Path]]] = {
    "ddp": (3, 3, 1, [], [EXAMPLES / "train_gpt_ddp.py", *SMALL]),
    "fsdp counted": (
        *(2, 2, 2, ["--host-time", "counted"]),
        [EXAMPLES / "train_gpt_fsdp.py", *SMALL],
    ),
    "pipeline": (2, 2, 2, [], [PROGRAMS / "pipelining.py", "1F1B", "4"]),
    "experts": (4, 4, 1, [], [PROGRAMS / "experts.py", "4", "splits"]),
    "gloo": (2, 4, 1, [], [PROGRAMS / "gloo_of_ranks.py"]),
    "store": (3, 3, 1, [], [PROGRAMS / "store_across_nodes.py"]),
    "folded": (3, 8, 1, STAGES, [PROGRAMS / "pipelines.py", "1F1B", "2", "1"]),
    "fold auto": (2, 2, 2, ["--fold", "auto"], [EXAMPLES / "train_gpt_fsdp.py", *SMALL]),
}


def on_hosts(phantora: Phantora, options: Sequence[str], command: Sequence[str | Path]) -> Run:
    return phantora.run([*HOSTS, *options], command, FAR)


def printed(run: Run) -> list[str]:
    """What ranks printed, in any order: which is shown first, and without its name, may differ."""
    return sorted(line.partition("]: ")[2] or line for line in run.output.splitlines())


@pytest.mark.parametrize("name", PROGRAMS_OF_MANY)
def test_equal_to_one_host(phantora: Phantora, name: str) -> None:
    """The whole history of the run."""
    count, nodes, gpus, more, command = PROGRAMS_OF_MANY[name]
    options = ["--nodes", str(nodes), "--gpus-per-node", str(gpus), *more]
    hosts = ",".join(["localhost", *(f"far{number}" for number in range(1, count))])
    one = phantora.run(options, command)
    several = phantora.run(["--hosts", hosts, "--listen", "127.0.0.1", *options], command, FAR)
    assert one.exit_code == 0, one.errors
    assert several.exit_code == 0, several.errors
    assert several.data.run["digest"] == one.data.run["digest"]
    assert _to_four_digits(printed(several)) == _to_four_digits(printed(one))
    told = several.data.run["hosts"]
    assert [each["host"] for each in told] == hosts.split(",")
    assert all(each["core_seconds"] > 0 < each["total_bytes"] for each in told)
    assert sum(each["core_seconds"] for each in told) == several.data.run["wall"]["core_seconds"]


@pytest.mark.skipif(FAKETIME is None, reason="needs libfaketime")
def test_clocks_that_disagree(phantora: Phantora) -> None:
    """The clocks of another host are three days behind, which nothing shows."""
    assert FAKETIME is not None
    wrong = {"PHANTORA_FAR_HOST_FAKETIME": str(FAKETIME), "PHANTORA_FAR_HOST_CLOCK": "-3d"}
    command: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
    runs = [phantora.run([*HOSTS, *NODES], command, FAR | clock) for clock in ({}, wrong)]
    for run in runs:
        assert run.exit_code == 0, run.errors
    assert runs[0].data.run["digest"] == runs[1].data.run["digest"]
    assert printed(runs[0]) == printed(runs[1])


def _to_four_digits(lines: list[str]) -> list[str]:
    """Large numbers in them: the clock begins at another time, and seconds as floats round."""
    large = re.compile(r"\d{1,3}(?:,\d{3})+")
    return [large.sub(lambda one: f"{int(one[0].replace(',', '')):.4g}", line) for line in lines]


def test_what_ranks_leave_is_read_on_all_hosts(phantora: Phantora, tmp_path: Path) -> None:
    """Execution traces, and word of a process that used a GPU and is no rank."""
    traces = tmp_path / "traces"
    options = [*NODES, "--execution-trace", str(traces)]
    run = on_hosts(phantora, options, [PROGRAMS / "helpers_of_hosts.py"])
    assert run.exit_code == 0, run.errors
    assert not run.data.run["notes"]
    written = [json.loads((traces / f"rank-{rank}.json").read_text()) for rank in range(2)]
    assert all("finish_ts" in trace for trace in written)
    assert sorted(path.name for path in traces.iterdir())[:2] == ["rank-0.json", "rank-1.json"]
    assert run.data.run["unsimulated"] == [{"rank": 1, "device": 0, "processes": 1}]


def test_a_call_of_a_helper_on_another_host(failing_phantora: Phantora) -> None:
    """It ends the run as on one host, and is named."""
    program, call = PROGRAMS / "helpers_of_hosts.py", "cudaImportExternalMemory"
    run = on_hosts(failing_phantora, NODES, [program, call])
    assert run.exit_code == 3, run.errors
    assert "a rank has started called cudaImportExternalMemory of cudart" in run.errors


def test_the_memory_limit_is_the_runs(phantora: Phantora) -> None:
    """Each host takes less, and what both take is told by host."""
    options = [*HOSTS, *NODES, "--memory-limit", "1300MiB"]
    command: list[str | Path] = [PROGRAMS / "takes_host_memory.py", "600"]
    run = phantora.run(options, command, FAR)
    assert run.exit_code == 2, run.errors
    assert not run.output
    said = re.search(
        r"The run takes 1\.\d+ GiB of memory, and --memory-limit is 1\.27 GiB: "
        r"(\d+|1\.[01]\d) .iB on this host, (\d+|1\.[01]\d) .iB on host far\. Run fewer ranks",
        run.errors,
    )
    assert said is not None, run.errors
    taken = [one["total_bytes"] for one in run.data.run["hosts"]]
    assert run.data.run["host_memory"]["limit_bytes"] == 1300 << 20
    assert max(taken) < 1300 << 20 < sum(taken)


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
        start = "phantora: a rank failed: Rank 1, on host far, ended with exit code 1. It was the "
        assert ours[0].startswith(start)
        assert "ValueError: a bad batch" in run.data.run["message"]
    assert run.data.run["exit_code"] == exit_code


def test_restarts_on_hosts(phantora: Phantora) -> None:
    """Where a rank of another host fails, the ranks of all hosts start again."""
    command = ["torchrun", "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1"]
    command[0] = str(Path(sys.executable).with_name("torchrun"))
    run = phantora.run(HOSTS, [], FAR, whole=[*command, str(PROGRAMS / "restarted.py"), "1"])
    assert run.exit_code == 0, run.errors
    assert "attempt 1 of 1 step 5" in run.output
    assert run.summary["restarts"][0].startswith("Rank 1, on host far, ended with exit code 1")


def test_a_rank_of_another_host_makes_no_progress(failing_phantora: Phantora) -> None:
    """As here: the run ends by --stall-limit, not by the ranks that were stopped for it."""
    run = on_hosts(failing_phantora, [*NODES, "--stall-limit", "3"], [FAILING, "loop"])
    assert run.exit_code == 5, run.errors
    assert "rank 1 is running without a GPU call" in run.errors
    assert "That is the --stall-limit." in run.errors
    assert run.data.run["exit_code"] == 5


def test_tls_between_hosts(phantora: Phantora, tmp_path: Path) -> None:
    """All that goes over the link is TLS, and no process has the token on its command line."""
    make_authority(tmp_path, "ours")
    tls = make_certificate(tmp_path, "host", "ours")
    heard = tmp_path / "heard"
    options = ["--tls-cert", str(tls.cert), "--tls-key", str(tls.key), "--tls-ca", str(tls.ca)]
    command: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
    environment = {**FAR, "PHANTORA_FAR_HOST_HEARD": str(heard)}
    process, path = phantora.start([*HOSTS, *NODES, *options], command, environment)
    tokens, lines = set(), set()
    with process:
        below = psutil.Process(process.pid)
        while process.poll() is None:
            for one in below.children(recursive=True):
                with suppress(psutil.Error, ValueError, OSError):
                    words = one.cmdline()
                    lines.add(" ".join(words))
                    if "--token-file" in words:
                        tokens.add(Path(words[words.index("--token-file") + 1]).read_text().strip())
            time.sleep(0.2)
    assert process.returncode == 0
    assert RunData(path).run["exit_code"] == 0
    (token,) = tokens
    assert token
    assert not any(token in line for line in lines)
    assert any(line.endswith(" agent") for line in lines)
    assert heard.read_bytes()[:2] == b"\x16\x03", "a record of TLS with a handshake"
    assert token.encode() not in heard.read_bytes()


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
    environment = {**FAR, "PHANTORA_FAR_HOST_CUT": str(cut)}
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
    "no Python there": (
        ["--hosts", "localhost,bare", "--listen", "127.0.0.1", *NODES],
        {},
        2,
        "Host bare has no such phantora as this one: its agent ended with status 127. The same ",
    ),
    "another PyTorch": (
        [*HOSTS, *NODES],
        {"PHANTORA_FAR_HOST_VERSIONS": json.dumps({"torch": "1.13"})},
        2,
        "Host far: this host has torch ",
    ),
    "another Python": (
        [*HOSTS, *NODES],
        {"PHANTORA_FAR_HOST_VERSIONS": json.dumps({"python": "3.9.1"})},
        2,
        "Host far: this host has python ",
    ),
    "another build": (
        [*HOSTS, *NODES],
        {"PHANTORA_FAR_HOST_VERSIONS": json.dumps({"phantora": f"{__version__}, build 1234"})},
        2,
        f"Host far: this host has phantora {__version__}, build ",
    ),
    "less isolation": (
        [*HOSTS, *NODES],
        {"PHANTORA_FAR_HOST_VERSIONS": json.dumps({"isolation": "T9"})},
        2,
        "Host far: this host has isolation T3, and the first one T9",
    ),
    "too many hosts": (
        ["--hosts", "localhost,far,far", *NODES],
        {},
        2,
        "The run has 2 simulated nodes with ranks that run, and 3 hosts were named",
    ),
    "no network": ([*HOSTS, *NODES, "--network", "host"], {}, 2, "need a network of their own"),
    "one node": (
        ["--hosts", "localhost,far", "--gpus", "2"],
        {},
        2,
        "--gpus is for a program of one simulated node, which stays whole on one host",
    ),
    "no TLS": (
        ["--hosts", "localhost,far", "--listen", "10.1.2.3:4000", *NODES],
        {},
        2,
        "10.1.2.3:4000 is beyond this machine",
    ),
    "no Slurm": (["--engine", "slurm", "--hosts", "2", *NODES], {}, 2, "--engine slurm: "),
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
