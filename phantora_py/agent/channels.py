"""What the agent needs of the shared-memory channels; `phantora_py._channel.ChannelSet` provides
it.
"""

from typing import Protocol


class Channels(Protocol):
    """The channels of this host's ranks. Times are virtual nanoseconds."""

    def poll(self, timeout_ms: int) -> list[tuple[int, int, bytes]]:
        """New records as (rank, host clock, cells); waits up to `timeout_ms` for some or for
        `wake`.
        """

    def answer(  # noqa: PLR0917 - the fields of a reply slot
        self, rank: int, slot: int, status: int, time_ns: int, value: int, payload: bytes
    ) -> None:
        """Ends a rank's wait."""

    def set_aside(self, rank: int) -> bool:
        """Has the rank ask before it goes on; False if it has records pending or is at work."""

    def owner_pid(self, rank: int) -> int:
        """The process that drives the rank's GPU; 0 until it is attached."""

    def release(self, rank: int, pid: int) -> bool:
        """The process `pid` of the rank has ended: whether another follows, or may from now on."""

    def waiting(self, rank: int) -> int:
        """Driver threads of the rank that wait for the simulation."""

    def poll_sleeps(self, rank: int) -> tuple[int, int]:
        """How often threads of the rank have slept in real time, to look outside again later, and
        how many do so now.
        """

    def blocked(self, rank: int) -> int:
        """Threads of the rank whose act may wait in the kernel for another rank, as for a lock."""

    def looking_up(self, rank: int) -> int:
        """Threads of the rank that look up a name, which somebody answers who is no rank."""

    def ran_out(self, rank: int) -> int:
        """How many sleeps and time-outs of the rank a minute of this machine's time has ended."""

    def gives_way(self, rank: int) -> tuple[int, int, bool]:
        """How many threads of the rank let its child processes work first, the last of their
        questions whether these still do, and whether one lets also the program's processes work
        that are no ranks.
        """

    def tell_children(self, rank: int, question: int, sleep: bool) -> None:
        """They do not any more; `sleep`: at least one of them sleeps by the real clock."""

    def clock(self, rank: int) -> int:
        """The rank's host clock."""

    def awaits_values(self, rank: int) -> bool:
        """Whether a thread of the rank waits for values of tensors that other ranks are to send."""

    def calls(self) -> dict[int, tuple[int, int, bool]]:
        """By rank: how many acts of others that concern it have begun, how often it was answered,
        and whether such an act, or an answer that comes at once, is under way.
        """

    def hang_up(self, rank: int) -> None:
        """The rank has ended: none of its acts is under way."""

    def damage(self) -> tuple[int | None, str] | None:
        """What a rank has done to the shared memory that cannot be: the rank if it is known, and
        the end of a sentence about it.
        """

    def wake(self) -> None:
        """Ends a `poll` of another thread."""

    def close(self) -> None:
        """Unmaps the channels."""
