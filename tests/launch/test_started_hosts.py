"""Agents of other hosts that do not begin."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from phantora_py.agent.parts import Outcome
from phantora_py.hosts.job import BEGUN, Job
from phantora_py.hosts.started import StartedHosts
from phantora_py.launch.options import RunOptions
from phantora_py.launch.shares import Hosts, Share
from sim_server.access import Endpoint
from sim_server.access.agents import agent_name, gone_text
from sim_server.errors import InternalError, UsageError


class Engine:
    """Starts what a test says for a host, in place of an agent."""

    def __init__(self, programs: dict[str, str]) -> None:
        self._programs = programs

    def command(self, host: str, _words: Sequence[str]) -> list[str]:
        return [shutil.which("sh") or "sh", "-c", self._programs[host]]

    def choose(self, _hosts: str | None, _file: Path | None) -> list[str]:
        return list(self._programs)

    def explain(self, _host: str, _status: int, _said: str) -> None:
        return None

    def close(self) -> None:
        pass


def started(tmp_path: Path, programs: dict[str, str]) -> StartedHosts:
    shares = [Share(host, index, (index,)) for index, host in enumerate(["ours", *programs])]
    hosts = Hosts(tuple(shares), "127.0.0.1:1", Engine(programs))
    nowhere = Endpoint.of("127.0.0.1:1", "-", None, insecure=True)
    options = RunOptions(command=("true",))
    job = Job(options, shares[0], nowhere, True, tmp_path, {}, (), {}, (), {})
    return StartedHosts(hosts, job, tmp_path)


def first_error(agents: StartedHosts) -> Exception:
    limit_s = time.monotonic() + 30
    while time.monotonic() < limit_s:
        try:
            agents.check()
        except (UsageError, InternalError) as error:
            return error
        time.sleep(0.02)
    raise AssertionError("nothing was found")


@pytest.mark.parametrize(
    ("program", "kind", "sentence"),
    [
        ("echo no module >&2; exit 1", UsageError, f"at the same path as here, {sys.executable}"),
        (f"echo {BEGUN}; exit 1", InternalError, "The agent of host far ended with status 1"),
        ("kill -9 $$", InternalError, "The agent of host far ended with status -9"),
    ],
)
def test_an_agent_that_ends(
    tmp_path: Path, program: str, kind: type[Exception], sentence: str
) -> None:
    """Before it has begun that is for the user to mend, unless it was killed."""
    with started(tmp_path, {"far": program}) as agents:
        error = first_error(agents)
    assert type(error) is kind
    assert sentence in str(error)


def test_hosts_without_a_word_are_named(tmp_path: Path) -> None:
    """With what starts an agent there has said, and without those that have begun."""
    waits = "cat > /dev/null"
    programs = {
        "near": f"echo {BEGUN}; {waits}",
        "far": f"echo srun: step creation disabled, retrying >&2; {waits}",
        "farther": waits,
    }
    with started(tmp_path, programs) as agents:
        limit_s = time.monotonic() + 30
        while "near" in agents.absence() or "retrying" not in agents.absence():
            assert time.monotonic() < limit_s, agents.absence()
            time.sleep(0.02)
        assert agents.absence() == (
            "No agent has begun on hosts far, farther within 60 s. What starts it there said: "
            "srun: step creation disabled, retrying"
        )


def test_what_waits_for_a_lost_host_is_ended(tmp_path: Path) -> None:
    """It heeds neither the end of its input nor a signal that asks; the other may take its time."""
    lost = gone_text(agent_name("far", {2}), in_silence=True)
    programs = {"near": "cat > /dev/null", "far": "trap '' TERM; while true; do sleep 0.1; done"}
    with started(tmp_path, programs) as agents:
        began_s = time.monotonic()
        outcome = Outcome(4, lost)
        assert agents.explain(outcome) == outcome
        near, far = (psutil.pid_exists(pid) for pid in agents.pids)
        assert (near, far) == (True, False)
    assert time.monotonic() - began_s < 10


def test_an_agent_that_somebody_stops(tmp_path: Path) -> None:
    """Its run was interrupted there, which says little here."""
    said = '{"exit_code": 143, "message": "every rank was stopped."}'
    with started(tmp_path, {"far": f"echo {BEGUN}; echo '{said}'; exit 143"}) as agents:
        error = first_error(agents)
    assert type(error) is InternalError
    assert str(error).startswith("Host far: every rank was stopped. That was not asked for here")
