"""The agent's side of the memory it shares with its ranks, as csrc/protocol/channel.h lays it out.

Units: every time is an int in virtual nanoseconds, except the timeouts.
Raises: OSError from the files; ValueError for a rank that is not ours, and after `close`.
"""

from collections.abc import Sequence
from typing import Final

RING_CELLS: Final[int]
REPLY_SLOTS: Final[int]
REPLY_PAYLOAD_BYTES: Final[int]

class ChannelSet:
    def __init__(self, run_dir: str, ranks: Sequence[int]) -> None:
        """Create and map `rank-<r>.channel` of each rank and `switchboard`; they must not exist."""
    def poll(self, timeout_ms: int) -> list[tuple[int, int, bytes]]:
        """Sleep until the doorbell has rung since the last poll, or the timeout; then collect.

        `timeout_ms`: negative for none. Sleeps without the GIL.
        Returns: (rank, host clock, cells) of each rank with records or whose clock alone has
        moved. The clock was read before the ring was drained.
        """
    def answer(
        self, rank: int, slot: int, status: int, time_ns: int, value: int, payload: bytes = b""
    ) -> None:
        """Write a reply and wake the rank. `value` may be negative: it is taken modulo 2^64."""
    def set_aside(self, rank: int) -> bool:
        """Have the rank resume before its next record; False if it has records pending."""
    def poll_sleeps(self, rank: int) -> tuple[int, int]:
        """The counters `poll_sleeps` and `polls_asleep` of a rank's channel."""
    def ran_out(self, rank: int) -> int:
        """How many sleeps and time-outs of the rank a minute of this machine's time has ended."""
    def blocked(self, rank: int) -> int:
        """The counter `blocked` of a rank's channel."""
    def looking_up(self, rank: int) -> int:
        """The counter `looking_up` of a rank's channel."""
    def gives_way(self, rank: int) -> tuple[int, int, bool]:
        """The counters `giving_way` and `asked` of a rank's channel."""
    def tell_children(self, rank: int, question: int, sleep: bool) -> None:
        """Answer the rank's questions about its child processes up to this one."""
    def awaits_values(self, rank: int) -> bool:
        """Whether a thread of the rank waits for values that other ranks are to send."""
    def calls(self) -> dict[int, tuple[int, int, bool]]:
        """By rank: how many acts of others that concern it have begun, how often it was answered
        (both modulo 2^32), and whether such an act, or an answer that comes at
        once, is under way.
        """
    def hang_up(self, rank: int) -> None:
        """The rank has ended: none of its acts is under way."""
    def release(self, rank: int, pid: int) -> bool:
        """The process `pid` of the rank has ended: whether another follows, or may from now on."""
    def waiting(self, rank: int) -> int:
        """Driver threads of the rank that wait for a reply."""
    def clock(self, rank: int) -> int: ...
    def owner_pid(self, rank: int) -> int:
        """The process that drives the rank's GPU; 0 until its first call."""
    def damage(self) -> tuple[int | None, str] | None:
        """What a rank has done to the memory that cannot be, first found: the rank if it is known,
        and the end of a sentence about it. Its channel is not read any more.
        """
    def wake(self) -> None:
        """End a `poll` of another thread."""
    def close(self) -> None:
        """Unmap. No other thread may be polling. The files stay."""

class TestRank:
    """The rank's side of a channel, for tests only."""

    __test__ = False

    def __init__(self, run_dir: str, rank: int) -> None: ...
    def push(self, cells: bytes, host_clock_ns: int, ring: bool = True) -> None:
        """Set the clock and append cells, waiting while the ring is full."""
    def set_clock(self, host_clock_ns: int) -> None: ...
    def count_call(self, to: int, ended: bool) -> None:
        """Count a call to another rank, or the end of one."""
    FIELDS: Final[list[str]]
    """Of the shared memory, that the agent reads."""
    def overwrite(self, field: str, value: int) -> None:
        """Put the value's lowest bytes into a field: what a wild pointer may do."""
    def wait_reply(self, slot: int, timeout_ms: int) -> tuple[int, int, int, bytes] | None:
        """(status, time_ns, value, payload) of the next reply in a slot; None at the timeout."""
    def aside(self) -> bool: ...
