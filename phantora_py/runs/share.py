"""The part in a run of a host that is not the first: `phantora agent`."""

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from phantora_py.agent.parts import Outcome
from phantora_py.agent.printed import Printed
from phantora_py.agent.simulation import Simulation, Unreachable
from phantora_py.agent.states import RankState
from phantora_py.hosts.job import Job, adopt, versions_of
from phantora_py.launch import rundir
from phantora_py.launch.prepared import Prepared
from phantora_py.runs.host import Host, Meeting, write_files
from phantora_py.runs.run import prepare
from sim_server import simulation_pb2 as wire
from sim_server.errors import RankFailed, UsageError

# The server is there; the other hosts may still be on their way (assumed: as long as the first one
# waits for its own).
_JOIN_LIMIT_S = 60.0
# The server starts at the same time as this agent, and on a busy machine needs longer (assumed).
_REACH_LIMIT_S = 30.0


class _Quiet:
    """Shows nothing here. Notes are for the user, who is at the first host."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.send: Callable[[wire.FromAgent], None] | None = None

    def update(self, progress: wire.Progress) -> None:
        """The first host shows it, as the next two."""

    def ranks_up(self, count: int) -> None: ...

    def ranks(self, states: Sequence[RankState]) -> None: ...

    def note(self, message: str) -> None:
        if self.send is not None:
            parcel = wire.Parcel(note=f"{self._host}: {message}")
            self.send(wire.FromAgent(parcels=wire.Parcels(parcels=[parcel])))


class _NoData:
    """The first host keeps the data."""

    def write(self, name: str, content: bytes) -> None:
        raise AssertionError(f"{name} came to a host that keeps no data")

    def check(self) -> None: ...


def run_share(job: Job, lifeline: TextIO, begun: Callable[[], None]) -> tuple[Outcome, bool]:
    """Runs the ranks of this host until the run ends, or `lifeline` does. Returns how that was, and
    whether it is news to the others. `begun`: called when this host is found fit.

    Raises: PhantoraError if it cannot be done.
    """
    prepared = _prepare(job)
    nothing = Path(os.devnull)
    with rundir.run_directory(len(prepared.local_ranks), nothing, nothing) as directory:
        threading.Thread(target=_await_end, args=(lifeline,), daemon=True).start()
        write_files(prepared, directory)
        begun()
        with ExitStack() as stack:
            host = Host(prepared, directory, stack)
            watcher = _Quiet(job.share.host)

            def output_of(simulation: Simulation) -> Printed:
                watcher.send = simulation.send
                ranks = prepared.local_ranks
                printed = Printed(simulation, directory.path, prepared.streams, ranks)
                stack.callback(printed.close)
                return printed

            meeting = Meeting(job.endpoint, lambda: None, _JOIN_LIMIT_S, _REACH_LIMIT_S)
            try:
                outcome = host.serve(meeting, _NoData(), watcher, lambda: None, output_of)
            except Unreachable as error:
                raise UsageError(
                    f"{error} That is the run's first host as seen from here; --listen names "
                    "another of its addresses, or a port that is let through."
                ) from error
            is_news = outcome.exit_code not in {0, RankFailed.exit_code} and not (
                host.told and outcome.message.startswith(host.told)
            )
            return outcome, is_news


def _prepare(job: Job) -> Prepared:
    adopt(job.environment, os.environ)
    try:
        os.chdir(job.directory)
    except OSError as error:
        raise UsageError(
            f"the directory {job.directory}, in which the run was started, cannot be entered: "
            f"{error.strerror}. It has to be there on all hosts."
        ) from error
    output = Path(tempfile.gettempdir()) / "phantora-agent.phr"  # made by nobody
    prepared = prepare(replace(job.options, output=output))
    prepared.share, prepared.streams, prepared.epoch = job.share, job.streams, dict(job.epoch)
    prepared.restarts = list(job.restarts)
    own = versions_of(prepared)
    for name, version in job.versions.items():
        if own[name] != version:
            raise UsageError(
                f"this host has {name} {own[name] or '(none)'}, and the first one "
                f"{version or '(none)'}; the ranks of a run need the same."
            )
    return prepared


def _await_end(lifeline: TextIO) -> None:
    """Whoever started us holds its other end."""
    lifeline.read()
    os.kill(os.getpid(), signal.SIGTERM)
