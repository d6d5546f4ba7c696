"""Isolation: tiers are what was found, and what is required is there or refused."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from phantora_py.isolation import advice, attempts, probe
from phantora_py.isolation.probe import Isolation
from sim_server.errors import UsageError


@pytest.mark.parametrize(
    ("namespaces", "network", "tier"),
    [
        ({"mnt", "uts", "ipc", "pid", "net"}, "own", "T3"),
        ({"user", "mnt", "uts", "ipc", "pid", "net"}, "own", "T3"),
        ({"user", "mnt", "uts", "ipc", "pid"}, "host", "T3"),
        ({"user", "mnt", "uts", "ipc", "net"}, "own", "T2"),
        ({"user", "mnt", "uts", "ipc"}, "host", "T2"),
        ({"user", "mnt", "uts", "ipc", "pid"}, "own", "T1"),
        ({"user", "uts"}, "own", "T1"),
        (set(), "own", "T0"),
        (set(), "host", "T0"),
    ],
)
def test_tier(namespaces: set[str], network: str, tier: str) -> None:
    """A tier is named by what ranks have of what was wanted; a user namespace alone is nothing."""
    assert Isolation(frozenset(namespaces), network=network).tier == tier


def test_reason_names_what_is_missing() -> None:
    """The report says why it was not more."""
    found = Isolation(frozenset({"uts"}), {"mnt": "Operation not permitted"})
    assert found.reason.endswith(
        "the network is the machine's own; no mnt: Operation not permitted"
    )


def test_reason_says_whose_network_it_is() -> None:
    """Programs behave differently with and without the world outside."""
    own = frozenset({"uts", "mnt", "net"})
    assert Isolation(own).reason == "own mount, host name, network namespaces"
    shared = Isolation(own - {"net"}, network="host").reason
    assert shared.endswith("the network is the machine's own (--network host)")


def test_process_asks_for_nothing() -> None:
    """--isolation process works on every machine."""
    assert probe.choose("process").tier == "T0"


def test_requirement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tier that is required is had, or the run does not start."""
    found = Isolation(frozenset({"uts"}), {"mnt": "denied"})
    monkeypatch.setattr(probe, "probe", lambda _network: found)
    assert probe.choose("require:T1").tier == "T1"
    with pytest.raises(UsageError, match="T3 was required, but this machine permits T1"):
        probe.choose("require:T3")


@pytest.mark.parametrize("setting", ["require:T9", "require", "T3", ""])
def test_unknown_settings_are_refused(setting: str) -> None:
    """A misspelt setting must not silently mean `auto`."""
    with pytest.raises(UsageError, match="--isolation takes"):
        probe.choose(setting)


def test_probe_leaves_no_trace() -> None:
    """Probing happens in children: this process keeps its namespaces and has no child left."""
    first = probe.probe()
    assert probe.probe() == first


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "or --backend bwrap"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1 as root"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000 as root"),
    ],
)
def test_advice_names_the_setting(
    setting: str, value: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is denied user namespaces is told which setting does so; other values are no reason."""
    monkeypatch.setattr(advice, "_SETTINGS_DIRECTORY", tmp_path)
    file = tmp_path / setting
    file.parent.mkdir()
    denied = Isolation(frozenset(), {"user": "Operation not permitted"})
    file.write_text(f"{value}\n")
    assert any(told in text for text in advice.advise(denied))
    file.write_text("12\n")
    assert not any(told in text for text in advice.advise(denied))


def test_advice_is_for_what_was_denied() -> None:
    """Masked files of /proc, or drivers that are missing; nothing where all is well."""
    own = frozenset({"user", "mnt", "uts", "ipc"})
    denied = Isolation(own, {"pid": "Operation not permitted", "net": "Not supported"})
    masked, drivers = advice.advise(denied)
    assert "systempaths=unconfined" in masked
    assert "modprobe veth" in drivers
    assert not list(advice.advise(Isolation(own | {"pid", "net"})))


@pytest.mark.parametrize("before", ["", "serve()"])
def test_what_a_process_did_before_does_not_matter(before: str) -> None:
    """A server's threads and its handlers for forks end a child that is in other namespaces."""
    program = f"""
import sys
from concurrent import futures
import grpc
from phantora_py.isolation.probe import probe

def serve():
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    grpc.channel_ready_future(grpc.insecure_channel(f"127.0.0.1:{{port}}")).result()

{before}
print([text for text in probe().denied.values() if "ended with status" in text])
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


def test_who_asks_what_there_is_may_be_killed() -> None:
    """The process that tries it ends without a word then."""
    with subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            attempts._PROGRAM,
            json.dumps(["find_primitives", "own"]),
            *sys.path,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asked:
        assert asked.stdout is not None
        assert asked.stderr is not None
        asked.stdout.close()
        assert asked.stderr.read() == ""
    assert asked.returncode == -signal.SIGPIPE
