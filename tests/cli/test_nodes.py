"""Ranks on several simulated nodes find each other as they would on a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from phantora_py.isolation import probe
from phantora_py.isolation.nodes import node_address, node_name

LIMIT_S = 120.0

needs_network = pytest.mark.skipif(
    not probe.probe().own_network, reason="needs network namespaces that can be joined"
)

# Every rank serves its node at one port, and asks the next node for its name.
RING = """\
import json, os, socket, threading, time
rank, nodes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
own, following = socket.gethostname(), f"node{(rank + 1) % nodes}"
server = socket.create_server((socket.gethostbyname(own), 5000))

def serve():
    connection, _ = server.accept()
    connection.sendall(own.encode())
    connection.close()

thread = threading.Thread(target=serve)
thread.start()
while True:
    try:
        connection = socket.create_connection((following, 5000))
        break
    except ConnectionRefusedError:
        time.sleep(0.001)
said = connection.makefile().read()
thread.join()
found = [own, socket.gethostbyname(own), said, os.environ["MASTER_ADDR"]]
open(f"rank-{rank}.json", "w").write(json.dumps(found))
"""

NODE_FILES = """\
import json, os, socket
rank = os.environ["RANK"]
kinds = ("net", "uts", "ipc", "mnt", "pid")
found = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds}
open(f"rank-{rank}.json", "w").write(json.dumps(found))
"""

DOWNLOAD = """\
import socket
for name in ("models.example.org", "models.example.org", "node7"):
    try:
        socket.create_connection((name, 443))
    except socket.gaierror as error:
        print(error.strerror)
try:
    socket.create_connection(("192.0.2.1", 443))
except OSError as error:
    print(error.strerror)
"""


def run(directory: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a Python program that needs no torch."""
    words = [sys.executable, "-m", "phantora_py", "run", "-o", "run.phr", *options]
    return subprocess.run(
        [*words, "--", "sh", "-c", f"{sys.executable} program.py"],
        cwd=write(directory, program),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def write(directory: Path, program: str) -> Path:
    """Puts the program there."""
    (directory / "program.py").write_text(program)
    return directory


def results(directory: Path, ranks: int) -> list[list[str]]:
    """What the ranks wrote."""
    return [json.loads((directory / f"rank-{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize(("nodes", "network"), [(1, "own"), (2, "host"), (8, "own")])
def test_nodes_reach_each_other_by_name(tmp_path: Path, nodes: int, network: str) -> None:
    """Each has its own name and address, and the first is the master."""
    isolation = probe.probe(network)
    if not isolation.named:
        pytest.skip("needs host names of its own")
    done = run(tmp_path, RING, "--nodes", str(nodes), "--gpus-per-node", "1", "--network", network)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path, nodes) == [
        [
            node_name(node),
            node_address(node, isolation.own_network),
            node_name((node + 1) % nodes),
            node_name(0),
        ]
        for node in range(nodes)
    ]


@needs_network
def test_ranks_of_a_node_share_what_a_machine_has_once(tmp_path: Path) -> None:
    """Network, host name and IPC are the node's; files and processes are a rank's own."""
    done = run(tmp_path, NODE_FILES, "--nodes", "2", "--gpus-per-node", "2")
    assert done.returncode == 0, done.stderr
    ranks: list[dict[str, str]] = results(tmp_path, 4)  # type: ignore[assignment]
    for kind in ("net", "uts", "ipc"):
        assert ranks[0][kind] == ranks[1][kind] != ranks[2][kind] == ranks[3][kind]
    if "pid" in probe.probe().namespaces:
        assert len({rank["pid"] for rank in ranks}) == 4
    assert len({rank["mnt"] for rank in ranks}) == 4


@needs_network
def test_the_world_outside_is_out_of_reach_and_the_user_is_told(tmp_path: Path) -> None:
    """A program that downloads fails at once, and phantora says how it would not, once."""
    done = run(tmp_path, DOWNLOAD)
    assert done.returncode == 0, done.stderr
    unknown = "Name or service not known"
    assert done.stdout.splitlines()[:4] == [unknown, unknown, unknown, "Network is unreachable"]
    assert done.stderr.count("asked for models.example.org, which is not on the simulated") == 1
    assert "with --network host" in done.stderr
    assert "node7" not in done.stderr


@needs_network
def test_too_many_nodes(tmp_path: Path) -> None:
    """The kernel knows so many neighbours; the message says what to do."""
    done = run(tmp_path, "", "--nodes", "501", "--gpus-per-node", "1")
    assert done.returncode == 2
    assert "joins 500 nodes at most, not 501; with --network host" in done.stderr


@needs_network
def test_interfaces_of_the_machine_stay_as_they_were() -> None:
    """Nodes and their router lie in namespaces of their own, which go with their maker."""
    before = interfaces()
    maker = """\
from phantora_py.isolation import container, nodes, probe
container.enter(probe.probe().namespaces & {"user"}, None)
made = nodes.Nodes(frozenset({"net", "uts", "ipc", "mnt"}))
for node in range(3):
    made.add(nodes.Node(nodes.node_name(node), nodes.node_address(node, True), "", ""))
print(open("/proc/net/dev").read().count("node"), flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", maker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == 3
        assert interfaces() == before
        process.kill()
    assert interfaces() == before


def interfaces() -> set[str]:
    """Network interfaces of this process's namespace."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}
