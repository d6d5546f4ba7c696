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

    def signs(self, rank: int) -> tuple[int, int, int, int]:
        """The counters `acting`, `relays`, `naps` and `napping` of a rank's channel."""

    def wake(self) -> None:
        """Ends a `poll` of another thread."""

    def close(self) -> None:
        """Unmaps the channels."""
