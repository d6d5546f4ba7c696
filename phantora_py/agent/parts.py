"""What the loop of the host agent needs of others, and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from phantora_py.agent.idle import StillWatch
from phantora_py.agent.states import RankState
from sim_server import simulation_pb2 as wire


class Output(Protocol):
    """What ranks print; `phantora_py.agent.output.RankOutput` provides it, and, where another host
    shows it, `phantora_py.agent.printed.Printed`.
    """

    def last_words(self, rank: int) -> str:
        """What a rank has printed last, as the end of a message."""

    def show_only(self, rank: int) -> None:
        """Shows no output of other ranks from now on."""

    def check(self) -> None:
        """Raises: what keeps the output from being shown or kept."""


class Memory(Protocol):
    """What the run takes of the machine; `phantora_py.agent.memory.MemoryWatch` provides it.

    `over`: why the run must stop at once, if it must.
    """

    over: str

    @property
    def total_bytes(self) -> int:
        """What the run took of this host when it was last weighed."""

    def take_warning(self) -> str:
        """What the user should be told, once; empty: nothing."""

    def iterates(self) -> None:
        """The program has come to its iterations."""

    def oom_killed(self) -> bool:
        """Whether the kernel has killed a process for lack of memory since the run began."""

    def to_dict(self) -> dict[str, Any]:
        """The `host_memory` entry of run.json."""


class OtherHosts(Protocol):
    """What goes to other hosts and comes from there; `phantora_py.agent.other_hosts.OtherHosts`
    provides it.
    """

    def await_proof(self, stalled: bool, wakeups: int) -> None:
        """The simulation waits, or does not any more, and had so many wakeups."""

    def is_due(self) -> bool:
        """Whether there is a reason to look at this host at once."""

    def look(self, still: StillWatch) -> None:
        """The ranks are about to be looked at."""

    def proof(self, still: StillWatch, guess: bool) -> int | None:
        """How many parcels had been delivered before, if nothing has gone on since `look`; `guess`:
        or if nothing has been sent since.
        """

    def check(self) -> None:
        """Raises: what keeps the others from being heard."""

    def tell_memory(self, taken_bytes: int) -> None:
        """The run takes so much of this host, for the one that holds the limit."""

    def close(
        self, host_memory: Mapping[str, Any], by_machine: Sequence[Mapping[str, float]]
    ) -> None:
        """The ranks of this host have ended. Sends the last that is to be sent, with what they took
        of the machine, and what depended on it. Raises: UsageError if it cannot be read.
        """

    def check_kept(self) -> None:
        """Raises: UsageError if something of the others that was to be kept is not."""


class Sender(Protocol):
    """The connection to the server; `phantora_py.agent.simulation.Simulation` provides it."""

    def send(self, message: wire.FromAgent) -> None:
        """Sends in the background, in order."""


class Watcher(Protocol):
    """Is told of a run's progress."""

    def update(self, progress: wire.Progress) -> None:
        """The simulation has come this far."""

    def ranks_up(self, count: int) -> None:
        """So many ranks have got as far as a GPU call."""

    def ranks(self, states: Sequence[RankState]) -> None:
        """What the ranks do, told now and then."""

    def note(self, message: str) -> None:
        """Something the user should know, though the run goes on."""


@dataclass(frozen=True)
class Outcome:
    """How the run ended.

    `failed_rank`: the first rank that failed, if one did. `tables`: of the deadlock report, JSON.
    `host_memory`: what the run took of the machine, `steady`: how its iteration time settled and so
    ended it, `unsimulated`: processes that are no ranks and used a GPU, `by_machine`: what depended
    on the machine, `hosts`: what it took of each of several hosts; see docs/data-file.md.
    """

    exit_code: int = 0
    message: str = ""
    failed_rank: int | None = None
    tables: str = ""
    host_memory: dict[str, Any] | None = None
    steady: dict[str, int] | None = None
    unsimulated: list[dict[str, int]] = field(default_factory=list)
    by_machine: list[dict[str, float]] = field(default_factory=list)
    hosts: list[dict[str, Any]] | None = None
