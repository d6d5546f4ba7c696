"""Addresses, tokens and certificates: who reaches a server, and what others are told."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import make_authority, make_certificate
from free_ports import free_port

from phantora_py.agent.simulation import Simulation
from sim_server import simulation_pb2 as wire
from sim_server.access import Address, Endpoint, Tls
from sim_server.access.offer import Offer, make_hello
from sim_server.access.tokens import VARIABLE, make_token_file, same_token, take_token
from sim_server.cluster import load_cluster
from sim_server.errors import UsageError
from sim_server.gpu import load_gpu
from sim_server.service import serve
from sim_server.settings import Settings

LIMIT_S = 30.0
OFFER = Offer(load_cluster("h100"))
LOCAL = ["unix:/tmp/s", "127.0.0.1:1", "127.9.9.9:65535", "localhost:50051", "[::1]:7"]
FAR = ["0.0.0.0:1", "[::]:1", "10.0.0.7:50051", "node0:50051", "[fe80::1]:7", "localhost.evil:7"]
NO_ADDRESS = [
    *("", ":1", "host", "host:", "host:0", "host:65536", "host:http", "host:-1", "host:\u0661"),
    *("::1:7", "unix:", "unix:///a:b/../c\0", "dns:///host:1", "ipv4:1.2.3.4:5", "http://host:80"),
    *("vsock:1:2", "host:1/path"),
]


@pytest.mark.parametrize("text", LOCAL)
def test_this_machine_s_addresses_need_no_certificates(text: str) -> None:
    """Nobody listens there but processes of this machine."""
    assert Address.parse(text).is_local
    assert Endpoint.of(text, "x").tls is None


@pytest.mark.parametrize("text", FAR)
def test_addresses_beyond_this_machine_need_certificates(text: str) -> None:
    """Unless the user says that nobody else can listen."""
    with pytest.raises(UsageError, match=r"is beyond this machine, .* --tls-cert, .* --insecure"):
        Endpoint.of(text, "x")
    assert not Endpoint.of(text, "x", insecure=True).address.is_local


@pytest.mark.parametrize("text", NO_ADDRESS)
def test_what_is_no_address_is_refused(text: str) -> None:
    """gRPC has more kinds, and would take some for others."""
    with pytest.raises(UsageError, match="write "):
        Address.parse(text)


def test_a_long_path_is_refused() -> None:
    """The kernel takes no longer one, and gRPC would not say why."""
    with pytest.raises(UsageError, match="107 bytes at most, not 200"):
        Address.parse(f"unix:/{'x' * 199}")


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    """Two servers at one port would each get some of the agents, with their token."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        text = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"Cannot listen on {text}: the address is in use"):
            serve(Endpoint.of(text, "x"), 1, OFFER)


def test_a_token_is_made_for_this_user_alone(tmp_path: Path) -> None:
    """Whatever the umask; an existing file is left alone."""
    path = tmp_path / "token"
    before = os.umask(0)
    try:
        make_token_file(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    token = take_token(path, {})
    assert token is not None
    assert len(token) == 32
    with pytest.raises(UsageError, match="cannot be made: File exists"):
        make_token_file(path)


def test_the_environment_s_token_is_taken_away() -> None:
    """Processes that are started later do not have it, also where a file is named."""
    environment = {VARIABLE: " secret\n"}
    assert take_token(None, environment) == "secret"
    assert environment == {}
    assert take_token(None, environment) is None


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"\xff", b"a\x00b", b"x" * 2000])
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    """An empty token would let everybody in."""
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="There is no token in the token file"):
        take_token(path, {})


def test_tokens_are_compared_whole() -> None:
    """And only with text."""
    assert same_token("secret", "secret")
    for other in ("secre", "secret ", "", b"secret", None):
        assert not same_token(other, "secret")


# Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tls]:
    """Of a server and an agent of one authority, and of a stranger."""
    directory = tmp_path_factory.mktemp("certificates")
    make_authority(directory, "ours")
    make_authority(directory, "theirs")
    made = {name: make_certificate(directory, name, "ours") for name in ("server", "agent")}
    made["stranger"] = make_certificate(directory, "stranger", "theirs")
    return made


class Channels:
    """Nobody polls, and no rank waits."""

    def wake(self) -> None:
        """Nothing."""


@contextmanager
def connected(endpoint: Endpoint) -> Iterator[Simulation]:
    """An agent's connection."""
    simulation = Simulation(endpoint, Channels())  # type: ignore[arg-type]
    try:
        yield simulation
    finally:
        simulation.close()


def test_both_sides_show_certificates_of_one_authority(certificates: dict[str, Tls]) -> None:
    """Who has none, another's, or another server's gets nowhere; who has one is served."""
    address = f"localhost:{free_port()}"
    endpoint = Endpoint.of(address, "secret", certificates["server"])
    codes: list[int] = []
    served = threading.Thread(target=lambda: codes.append(serve(endpoint, 1, OFFER)), daemon=True)
    served.start()
    hello = make_hello(Settings(1, 1, 1, OFFER.cluster, load_gpu("h100")), [0])
    stranger = certificates["stranger"]
    trusting = replace(stranger, ca=certificates["agent"].ca)
    distrusting = replace(certificates["agent"], ca=stranger.ca)
    for tls in (None, stranger, trusting, distrusting):
        with (
            connected(replace(endpoint, tls=tls)) as simulation,
            pytest.raises(UsageError, match=f"No server answers at {address} .*UNAVAILABLE"),
        ):
            simulation.join(hello, lambda: None, limit_s=1.0)
    with connected(replace(endpoint, tls=certificates["agent"])) as simulation:
        simulation.join(hello, lambda: None, limit_s=LIMIT_S)
        simulation.send(wire.FromAgent(rank_exited=wire.RankExited(rank=0)))
        simulation.send(wire.FromAgent(finish=wire.Finish()))
        while (message := simulation.next_message()) is not None and not message.data_chunk.last:
            continue
        simulation.check_orderly_end()
    served.join(LIMIT_S)
    assert codes == [0]


def test_files_that_are_no_certificates_are_named(
    tmp_path: Path, certificates: dict[str, Tls]
) -> None:
    """gRPC would only say that it cannot listen, or that nobody answers."""
    good = certificates["server"]
    junk = tmp_path / "junk"
    junk.write_text("nothing")
    assert Tls.of(good.cert, good.key, good.ca) == good
    assert Tls.of(None, None, None) is None
    for tls, message in (
        ((good.cert, None, None), "add --tls-key and --tls-ca"),
        ((good.cert, tmp_path / "none", good.ca), "none cannot be read: No such file"),
        ((junk, good.key, good.ca), "junk and .* are not a certificate and its private key"),
        ((good.cert, certificates["agent"].key, good.ca), "are not a certificate and its private"),
        ((good.cert, good.key, junk), "junk has no certificate of an authority"),
    ):
        with pytest.raises(UsageError, match=message):
            Tls.of(*tls)


def test_certificates_and_insecure_contradict(certificates: dict[str, Tls]) -> None:
    """It is not guessed which of them is meant."""
    with pytest.raises(UsageError, match="leave it or --tls-\\* out"):
        Endpoint.of("host:1", "x", certificates["agent"], insecure=True)
