"""The agents of the other hosts, as processes of the first: `ssh`, `srun` or they themselves."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from phantora_py.agent.parts import Outcome
from phantora_py.agent.server import START_LIMIT_S
from phantora_py.hosts.engines import short
from phantora_py.hosts.job import BEGUN, Job
from phantora_py.launch.module import module_command
from phantora_py.launch.shares import Hosts, Share
from phantora_py.machine.process_tree import cpu_s
from sim_server.access.agents import agent_name, gone_text
from sim_server.errors import (
    Deadlock,
    InternalError,
    Interrupted,
    PhantoraError,
    RankFailed,
    UsageError,
)

# An agent ends when it has stopped its ranks, at the latest soon after its standard input (assumed:
# what that takes, with its run directory).
_END_LIMIT_S = 15.0
# How long what an agent says of its end is waited for, once the run has failed (assumed).
_REPORT_S = 3.0
# That is what ssh and srun take (assumed).
_TERMINATE_S = 0.5
_PAUSE_S = 0.02
_SHOWN_LINES = 20
_KILLED = 128
"""From here on the exit code that a shell tells is that of a signal."""


class _Started:
    """One of them."""

    def __init__(self, hosts: Hosts, share: Share, job: Job, directory: Path) -> None:
        self.host = share.host
        self.lost = gone_text(agent_name(share.host, share.ranks), in_silence=True)
        """How the run ends if nothing comes of it any more."""
        self.used_s = 0.0
        """CPU time on this host."""
        self._engine = hosts.engine
        self._said = directory / f"agent-{share.index}.stderr"
        self._told = directory / f"agent-{share.index}.stdout"
        words = hosts.engine.command(share.host, [*module_command("phantora_py"), "agent"])
        try:
            with self._said.open("wb") as said, self._told.open("wb") as told:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=told, stderr=said, start_new_session=True
                )
        except OSError as error:
            raise UsageError(
                f"The agent of host {share.host} cannot be started: {words[0]}: {error.strerror}."
            ) from error
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `error` tells
            self.process.stdin.write(replace(job, share=share).to_json().encode() + b"\n")
            self.process.stdin.flush()

    def poll(self) -> int | None:
        """Its status once it has ended."""
        process, flags = self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT
        if process.returncode is None and os.waitid(os.P_PID, process.pid, flags) is not None:
            self.used_s = cpu_s(process.pid)
        return process.poll()

    def error(self) -> PhantoraError | None:
        """Why it has ended, if it did so for a reason of its own."""
        status = self.poll()
        if not status:
            return None
        said = self._said.read_text(errors="replace")
        why = None if self.has_begun else self._engine.explain(self.host, status, said)
        if why is not None:
            return UsageError(why)
        report = _report(self._told.read_text(errors="replace"))
        if report is not None:
            return _error_of(report, f"Host {self.host}: {report['message']}")
        words = "\n  ".join(said.splitlines()[-_SHOWN_LINES:]) or "it said nothing."
        if not self.has_begun and 0 < status < _KILLED:
            return UsageError(
                f"Host {self.host} has no such phantora as this one: its agent ended with status "
                f"{status}. The same Python, PyTorch and phantora have to be at the same path as "
                f"here, {sys.executable}. It said: {words}"
            )
        return InternalError(f"The agent of host {self.host} ended with status {status}: {words}")

    @property
    def has_begun(self) -> bool:
        """Whether it has found its host fit, and joins."""
        return BEGUN in self._told.read_text(errors="replace").splitlines()

    def last_words(self) -> str:
        """What has come of it, for one that has said nothing yet."""
        return short(self._said.read_text(errors="replace"))

    def end(self) -> None:
        """That of its process on this host, which may be all that can be reached."""
        self.process.terminate()
        deadline_s = time.monotonic() + _TERMINATE_S
        while self.poll() is None:
            if time.monotonic() > deadline_s:
                self.process.kill()
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class StartedHosts:
    """While entered, all of them; when left, none."""

    def __init__(self, hosts: Hosts, job: Job, directory: Path) -> None:
        """`directory`: for what they say. Raises: UsageError."""
        self._hosts = hosts
        self._job = job
        self._directory = directory
        self._started: list[_Started] = []

    def __enter__(self) -> "StartedHosts":
        try:
            for share in self._hosts.shares[1:]:
                started = _Started(self._hosts, share, self._job, self._directory)
                self._started.append(started)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def check(self) -> None:
        """Raises: UsageError or InternalError if one has ended for a reason of its own."""
        for started in self._started:
            if (error := started.error()) is not None:
                raise error

    def absence(self) -> str:
        """Why the run has not begun, where that is because an agent is missing; else empty."""
        absent = [started for started in self._started if not started.has_begun]
        if not absent:
            return ""
        names = ", ".join(started.host for started in absent)
        return (
            f"No agent has begun on {'host' if len(absent) == 1 else 'hosts'} {names} within "
            f"{START_LIMIT_S:g} s. What starts it there said: {absent[0].last_words()}"
        )

    def explain(self, outcome: Outcome) -> Outcome:
        """The run's end: with the host of a rank that failed on another, and with what the agent of
        a host says if that was the cause.
        """
        outcome = self._with_host(outcome)
        if outcome.exit_code not in {RankFailed.exit_code, InternalError.exit_code}:
            return outcome
        lost = [started for started in self._started if outcome.message.startswith(started.lost)]
        if lost:  # what waits for one might do so for ever
            for started in lost:
                started.end()
            return outcome
        deadline_s = time.monotonic() + _REPORT_S
        while time.monotonic() < deadline_s:
            for started in self._started:
                error = started.error()
                if error is not None and (outcome.failed_rank is None or _is_cause(error)):
                    return replace(outcome, exit_code=error.exit_code, message=str(error))
            if all(started.poll() is not None for started in self._started):
                break
            time.sleep(_PAUSE_S)
        return outcome

    def _with_host(self, outcome: Outcome) -> Outcome:
        start = f"Rank {outcome.failed_rank} "
        for share in self._hosts.shares[1:]:
            if outcome.failed_rank in share.ranks and outcome.message.startswith(start):
                rest = outcome.message.removeprefix(start)
                where = f"Rank {outcome.failed_rank}, on host {share.host}, {rest}"
                return replace(outcome, message=where)
        return outcome

    @property
    def pids(self) -> list[int]:
        """Of their processes on this host."""
        return [started.process.pid for started in self._started]

    @property
    def used_s(self) -> float:
        """CPU time on this host of those that have ended: an agent may run on this one."""
        return sum(started.used_s for started in self._started)

    def _end(self) -> None:
        deadline_s = time.monotonic() + _END_LIMIT_S
        for started in self._started:
            started.close()
        for started in self._started:
            while started.poll() is None and time.monotonic() < deadline_s:
                time.sleep(_PAUSE_S)
            if started.poll() is None:
                started.process.kill()
                started.process.wait()
                print(f"phantora: the agent of host {started.host} was killed.", file=sys.stderr)
        self._hosts.engine.close()


def _error_of(report: Mapping[str, Any], message: str) -> PhantoraError:
    """The error behind an agent's report; one of ours if it is of no kind that an agent finds."""
    if Interrupted.is_code(report["exit_code"]):
        return InternalError(
            f"{message} That was not asked for here: somebody has stopped its agent, or what had "
            "started it there has gone."
        )
    kinds = {kind.exit_code: kind for kind in (UsageError, Deadlock)}
    return kinds.get(report["exit_code"], InternalError)(message)


def _is_cause(error: PhantoraError) -> bool:
    """Whether a rank that failed did so because its agent had to stop: the host lacked something,
    or the ranks made no progress for as long as --stall-limit says.
    """
    return isinstance(error, UsageError | Deadlock)


def _report(told: str) -> Mapping[str, Any] | None:
    """What an agent says last on its standard output, see `phantora_py.cli.agent`."""
    try:
        report = json.loads(told.splitlines()[-1])
    except (ValueError, IndexError):
        return None
    is_report = isinstance(report, dict) and report.keys() == {"exit_code", "message"}
    return report if is_report else None
