"""Ranks, channels and a server that a test of the agent's loop plays."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from phantora_py.agent.agent import HostAgent
from phantora_py.agent.parts import Outcome
from phantora_py.agent.stall import StallWatch
from phantora_py.agent.states import RankState
from phantora_py.launch.interrupts import Interrupts
from sim_server import simulation_pb2 as wire
from sim_server.errors import InternalError
from sim_server.records import RecordKind

# One record that is no question of a helper thread.
WORK = bytes([RecordKind.KERNEL]) + bytes(63)


class Channels:
    """Hands out what a test put in, one poll at a time."""

    def __init__(self) -> None:
        self.polls: deque[list[tuple[int, int, bytes]]] = deque()
        self.aside: list[int] = []
        self.ended: list[int] = []

    def gives_way(self, rank: int) -> tuple[int, int, bool]:
        return 0, 0, False

    def tell_children(self, rank: int, question: int, sleep: bool) -> None:
        """Nobody reads it."""

    def poll(self, timeout_ms: int) -> list[tuple[int, int, bytes]]:
        return self.polls.popleft() if self.polls else []

    def set_aside(self, rank: int) -> bool:
        self.aside.append(rank)
        return True

    def waiting(self, rank: int) -> int:
        return 0

    clock = ran_out = looking_up = waiting

    def owner_pid(self, rank: int) -> int:
        return 1

    def awaits_values(self, rank: int) -> bool:
        return False

    def calls(self) -> dict[int, tuple[int, int, bool]]:
        return {rank: (0, 0, False) for rank in range(2)}

    def damage(self) -> tuple[int | None, str] | None:
        return None

    def hang_up(self, rank: int) -> None:
        self.ended.append(rank)


ALL_DATA = wire.ToAgent(data_chunk=wire.DataChunk(name="digest", content=b"01", last=True))


class Server:
    """Answers `send` as the test's `react` says, Finish at least by the last file; then ends."""

    def __init__(self, react: Callable[[wire.FromAgent], list[wire.ToAgent]]) -> None:
        self.sent: list[wire.FromAgent] = []
        self.incoming: deque[wire.ToAgent] = deque()
        self.ended = False
        self._react = react

    def send(self, message: wire.FromAgent) -> None:
        self.sent.append(message)
        self.incoming.extend(self._react(message))
        if message.HasField("finish") and not self.incoming:
            self.incoming.append(ALL_DATA)

    def take(self) -> Iterator[wire.ToAgent]:
        while self.incoming:
            yield self.incoming.popleft()

    def next_message(self) -> wire.ToAgent | None:
        return self.incoming.popleft() if self.incoming else None

    def check_orderly_end(self) -> None:
        if self.ended:
            raise InternalError("The connection to sim_server broke")

    def kinds(self) -> list[str | None]:
        return [message.WhichOneof("message") for message in self.sent]


class Processes:
    """Ranks that end when a test's schedule says so: at which look, with which status."""

    def __init__(self, ends: dict[int, tuple[int, int]]) -> None:
        self.pids = {rank: (1 << 23) + rank for rank in ends}  # of no process
        self._ends = ends
        self._looks = 0
        self.stopped, self.beside = False, None

    def take_ended(self) -> list[tuple[int, int]]:
        self._looks += 1
        ended = [
            (rank, -15 if self.stopped and look > self._looks else status)
            for rank, (look, status) in self._ends.items()
            if rank in self.pids and (look <= self._looks or self.stopped)
        ]
        for rank, _ in ended:
            del self.pids[rank]
        return ended

    def give_up(self, _silence_s: float) -> list[int]:
        return []

    def others_go_on(self) -> bool:
        return False

    def refusal(self) -> str:
        return ""

    def tell_end(self, rank: int, how: str) -> str:
        return f"Rank {rank} {how} It was the first to fail; the others were stopped."

    def stop(self, grace_s: float) -> None:
        self.stopped = True
        self.grace_s = grace_s


class Output:
    """What ranks have said last."""

    def __init__(self) -> None:
        self.only: list[int] = []

    def last_words(self, rank: int) -> str:
        return f"I am {rank} and fail"

    def show_only(self, rank: int) -> None:
        self.only.append(rank)

    def check(self) -> None:
        """All is well."""


class Memory:
    """Says what a test put in."""

    def __init__(self, over: str = "") -> None:
        self.over = over
        self.warning = "it runs short"

    def take_warning(self) -> str:
        warning, self.warning = self.warning, ""
        return warning

    def iterates(self) -> None:
        """Noted by nobody."""

    def oom_killed(self) -> bool:
        return False


class Watcher:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.iterations: list[int] = []
        self.files: list[tuple[str, bytes]] = []
        self.notes: list[str] = []
        self.up: list[int] = []
        self.states: list[RankState] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def ranks_up(self, count: int) -> None:
        self.up.append(count)

    def ranks(self, states: Sequence[RankState]) -> None:
        self.states = list(states)

    def update(self, progress: wire.Progress) -> None:
        self.iterations.append(progress.iterations)

    def write(self, name: str, content: bytes) -> None:
        self.files.append((name, content))

    def check(self) -> None:
        """All is well."""


def serve(
    ends: dict[int, tuple[int, int]],
    react: Callable[[wire.FromAgent], list[wire.ToAgent]] = lambda _: [],
    polls: list[list[tuple[int, int, bytes]]] | None = None,
    stall: StallWatch | None = None,
    interrupts: Interrupts | None = None,
    *,
    memory: Memory | None = None,
    until_steady: bool = False,
) -> tuple[Outcome, Channels, Server, Processes, Watcher]:
    """Runs an agent to its end."""
    channels, server, processes, watcher = Channels(), Server(react), Processes(ends), Watcher()
    channels.polls.extend(polls or [])
    stall = stall or StallWatch(Path("nowhere"), None)
    interrupts = interrupts or Interrupts()
    played: Any = (channels, server, processes, watcher, watcher)
    watches: Any = {"output": Output(), "memory": memory or Memory()}
    agent = HostAgent(
        *played, **watches, stall=stall, interrupts=interrupts, until_steady=until_steady
    )
    return agent.run(), channels, server, processes, watcher
