"""One run on several hosts, each of which is a network namespace with one cable to a switch."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from certificates import make_authority, make_certificate
from phantora_runs import EXAMPLES, PROGRAMS, Phantora

from phantora_py.isolation import probe

# For the end of a run, on a loaded machine; elsewhere it takes less than five seconds.
ENDED_S = 15.0
COUNT = 3


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)


def has_namespaces() -> bool:
    """Whether this machine lets us make network namespaces and join them."""
    if os.geteuid() != 0 or shutil.which("ip") is None or not probe.probe().own_network:
        return False
    name = f"probe-{os.getpid()}"
    try:
        ip(f"netns add {name}")
        ip(f"netns del {name}")
    except subprocess.CalledProcessError:
        return False
    return True


pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not has_namespaces(), reason="wants root, ip and network namespaces"),
]


class Hosts:
    """Network namespaces whose addresses are 10.77.0.1 and so on; the last one is a switch."""

    def __init__(self, name: str) -> None:
        self.names = [f"{name}-{number}" for number in range(COUNT)]
        self._switch = f"{name}-switch"

    def join(self, stack: ExitStack) -> None:
        """Made, with all cables, until the stack is left."""
        for name in (self._switch, *self.names):
            ip(f"netns add {name}")
            stack.callback(ip, f"netns del {name}")
            ip(f"-n {name} link set lo up")
        ip(f"-n {self._switch} link add bridge type bridge")
        ip(f"-n {self._switch} link set bridge up")
        for number, name in enumerate(self.names, 1):
            ip(f"-n {name} link add eth0 type veth peer name port{number} netns {self._switch}")
            ip(f"-n {self._switch} link set port{number} master bridge up")
            ip(f"-n {name} address add 10.77.0.{number}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")

    def cut(self, number: int) -> None:
        """Pulls the cable of a host."""
        ip(f"-n {self._switch} link set port{number + 1} down")


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    found = Hosts(f"test-{os.getpid()}")
    with ExitStack() as stack:
        found.join(stack)
        yield found


def on(hosts: Hosts, directory: Path) -> tuple[list[str], dict[str, str], list[str]]:
    """Options, environment and prefix of a run on these hosts: TLS, as addresses are beyond."""
    make_authority(directory, "ours")
    tls = make_certificate(directory, "host", "ours", "10.77.0.1")
    options = ["--hosts", ",".join(["localhost", *hosts.names[1:]]), "--listen", "10.77.0.1"]
    options += ["--tls-cert", str(tls.cert), "--tls-key", str(tls.key), "--tls-ca", str(tls.ca)]
    ssh = [sys.executable, str(Path(__file__).with_name("namespace_host.py"))]
    return options, {"PHANTORA_SSH": shlex.join(ssh)}, ["ip", "netns", "exec", hosts.names[0]]


def test_equal_to_one_host(phantora: Phantora, hosts: Hosts, tmp_path: Path) -> None:
    """The whole history of the run."""
    script = EXAMPLES / "train_gpt_fsdp.py"
    program = [str(script), "--layers", "2", "--steps", "3", "--batch", "2"]
    nodes = ["--nodes", "3", "--gpus-per-node", "1"]
    options, environment, prefix = on(hosts, tmp_path)
    one = phantora.run(nodes, program)
    several = phantora.run([*options, *nodes], program, environment, prefix)
    assert one.exit_code == 0, one.errors
    assert several.exit_code == 0, several.errors
    assert several.data.run["digest"] == one.data.run["digest"]
    assert len(several.data.run["hosts"]) == COUNT


@pytest.mark.parametrize("number", range(COUNT), ids=["first", "second", "third"])
def test_a_cable_is_pulled(
    failing_phantora: Phantora, hosts: Hosts, tmp_path: Path, number: int
) -> None:
    """The run ends soon and names a host; on each of them nothing is left."""
    options, environment, prefix = on(hosts, tmp_path)
    options += ["--nodes", "3", "--gpus-per-node", "1"]
    program = [str(PROGRAMS / "failing.py"), "never"]
    process, _ = failing_phantora.start(options, program, environment, prefix)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "under way\n"
        began_s = time.monotonic()
        hosts.cut(number)
        code = process.wait(60)
        while failing_phantora.left() and time.monotonic() - began_s < ENDED_S:
            time.sleep(0.05)
        assert time.monotonic() - began_s < ENDED_S
        errors = process.stderr.read()
    assert code in {4, 70}, errors
    assert hosts.names[number or 1] in errors


@pytest.mark.parametrize(
    ("mib", "sentence"),
    [
        (2, "Host far: 1 ranks share 5 MiB of memory with the simulation, and there is no room"),
        (8, "Host far: There is no room left in /dev/shm for what ranks print. Make room there"),
    ],
)
def test_a_host_whose_disk_is_full(
    failing_phantora: Phantora, tmp_path: Path, mib: int, sentence: str
) -> None:
    """From the start, or in the middle, where what is lost would not be missed."""
    ssh = [sys.executable, str(Path(__file__).with_name("small_host.py"))]
    environment = {"PHANTORA_SSH": shlex.join(ssh), "SMALL_HOST_MIB": str(mib)}
    environment["SMALL_HOST_DIRECTORY"] = str(tmp_path)
    options = ["--hosts", "localhost,far", "--listen", "127.0.0.1"]
    options += ["--nodes", "2", "--gpus-per-node", "1"]
    run = failing_phantora.run(options, [PROGRAMS / "prints_much.py"], environment)
    assert run.exit_code == 2, run.errors
    assert sentence in run.errors
    assert run.errors.count("phantora: ") == 1
