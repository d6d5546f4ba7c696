"""Which host has which ranks."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from phantora_py.hosts.engines import Slurm, Ssh, address_for, choose_engine
from phantora_py.hosts.job import adopt
from phantora_py.isolation import wire
from phantora_py.launch.layout import RunLayout
from phantora_py.launch.shares import divide
from sim_server.cluster import load_cluster, place
from sim_server.errors import UsageError


def layout(nodes: int, gpus: int) -> RunLayout:
    return RunLayout(place(load_cluster("h100"), None, nodes, gpus), gpus)


def test_nodes_stay_whole() -> None:
    shares = divide(["a", "b"], layout(3, 2), range(6))
    assert [(one.host, one.ranks) for one in shares] == [("a", (0, 1)), ("b", (2, 3, 4, 5))]


def test_absent_ranks_need_no_host() -> None:
    shares = divide(["a", "b"], layout(8, 1), [0, 3, 7])
    assert [one.ranks for one in shares] == [(0,), (3, 7)]


def test_more_hosts_than_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"2 simulated nodes .* 3 hosts"):
        divide(["a", "b", "c"], layout(2, 1), range(2))


def test_hosts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ours\na\n\n b # the other\n")
    assert choose_engine("ssh").choose(None, file) == ["a", "b"]


@pytest.mark.parametrize("names", ["a,", "a b", "-oProxyCommand=x,b", "", "a,b c"])
def test_names_that_are_none(names: str) -> None:
    with pytest.raises(UsageError):
        choose_engine("ssh").choose(names, None)


@pytest.mark.parametrize("engine", ["slurm", "ray"])
def test_engines_that_know_the_hosts_take_a_number(engine: str) -> None:
    with pytest.raises(UsageError, match="number of hosts"):
        choose_engine(engine).choose("a,b", None)


def test_commands_of_engines() -> None:
    """ssh has one word for the other side's shell; this machine needs no ssh."""
    ssh = Ssh("ssh -p 2222")
    assert ssh.command("localhost", ["x", "a b"]) == ["x", "a b"]
    assert ssh.command("far", ["x", "a b"])[:3] == ["ssh", "-p", "2222"]
    assert ssh.command("far", ["x", "a b"])[-3:] == ["--", "far", "x 'a b'"]
    assert Slurm().command("far", ["x"])[0] == "srun"
    assert "--nodelist=far" in Slurm().command("far", ["x"])


def test_variables_of_another_host() -> None:
    """They are the first one's, but for those that belong to a host."""
    own = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TMPDIR": "/scratch", "RAY_X": "1"}
    adopt({"PATH": "/bin", "HOME": "/root"}, own)
    assert own == {"PATH": "/bin", "HOME": "/root", "TMPDIR": "/scratch", "RAY_X": "1"}


def test_an_address_of_ours() -> None:
    assert address_for(["localhost", "localhost"], None).startswith("127.0.0.1:")
    assert address_for(["a", "b"], "10.0.0.1:5000") == "10.0.0.1:5000"
    with pytest.raises(UsageError, match="--listen"):
        address_for(["a", "b"], "192.0.2.1")


def packet(flags: int, protocol: int = socket.IPPROTO_TCP) -> bytes:
    """As the wire has it: its header, Ethernet's, IPv4's to 10.88.1.2, and TCP's with `flags`."""
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, protocol, 0, b"\x0a\x58\1\1", b"\x0a\x58\1\2"
    )
    tcp = struct.pack("!HHIIBBHHH", 1, 2, 0, 0, 0x50, flags, 0, 0, 0)
    return bytes(10) + bytes(14) + ip + tcp


@pytest.mark.parametrize(
    ("flags", "is_attempt"), [(0x02, True), (0x14, True), (0x12, False), (0x18, False)]
)
def test_packets_of_attempts(flags: int, is_attempt: bool) -> None:
    """SYN and RST are; SYN-ACK and data are not, nor is what is not TCP."""
    assert wire.destination(packet(flags)) == "10.88.1.2"
    assert wire.is_attempt(packet(flags)) == is_attempt
    assert not wire.is_attempt(packet(flags, socket.IPPROTO_UDP))
