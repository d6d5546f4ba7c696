"""Puts what many ranks print into one stream without mixing their lines."""

import time
from collections.abc import Callable
from dataclasses import dataclass

# A line that goes on without an end is shown in parts (assumed: longer than any that is read).
_LONGEST_LINE_BYTES = 1 << 16
# An unfinished line, most likely a progress bar, is shown as it stands after so long (assumed).
STALE_S = 5.0


@dataclass
class _Unfinished:
    text: bytes
    since_s: float


class LineMerger:
    """As long as a single rank has printed, its output is passed on as it is. From the second on
    whole lines are, each with the name of its rank.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        by_line: bool = False,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`by_line`: `write` gets whole lines only, also of a single rank; what is unfinished is
        for `unfinished` to tell.
        """
        self._write = write
        self._by_line = by_line
        self._clock_s = clock_s
        self._ranks: set[int] = set()
        self._unfinished: dict[int, _Unfinished] = {}
        self._at_line_start = True

    def add(self, rank: int, data: bytes) -> None:
        """Takes what a rank has printed."""
        self._ranks.add(rank)
        if len(self._ranks) == 1 and not self._by_line:
            self._write(data)
            self._at_line_start = data.endswith(b"\n")
            return
        if not self._at_line_start:
            self._write(b"\n")
            self._at_line_start = True
        before = self._unfinished.pop(rank, _Unfinished(b"", self._clock_s()))
        *lines, rest = (before.text + data).split(b"\n")
        while len(rest) > _LONGEST_LINE_BYTES:
            lines.append(rest[:_LONGEST_LINE_BYTES])
            rest = rest[_LONGEST_LINE_BYTES:]
        self._write_lines(rank, lines)
        if rest:
            since_s = self._clock_s() if lines else before.since_s
            # Who ends with a return writes over it next.
            ended = b"\r" if rest.endswith(b"\r") else b""
            self._unfinished[rank] = _Unfinished(as_seen(rest) + ended, since_s)

    def unfinished(self) -> bytes:
        """The unfinished line that was written to last."""
        if not self._unfinished:
            return b""
        rank, line = list(self._unfinished.items())[-1]
        return self._named(rank, as_seen(line.text))

    def show_stale(self) -> None:
        """Ends the lines that have been unfinished for long."""
        now_s = self._clock_s()
        for rank, line in list(self._unfinished.items()):
            if now_s - line.since_s >= STALE_S:
                del self._unfinished[rank]
                self._write_lines(rank, [line.text])

    def end(self, fresh_line: bool) -> None:
        """Shows what is left. `fresh_line`: who writes next needs one."""
        for rank, line in self._unfinished.items():
            self._write_lines(rank, [line.text])
        self._unfinished.clear()
        if fresh_line and not self._at_line_start:
            self._write(b"\n")

    def _write_lines(self, rank: int, lines: list[bytes]) -> None:
        if lines:
            self._write(b"".join(self._named(rank, as_seen(line)) + b"\n" for line in lines))

    def _named(self, rank: int, line: bytes) -> bytes:
        """PyTorch itself names the rank, in a distributed program's tracebacks and log lines:
        `[rank0]: Traceback`, `[rank0]:W1126`.
        """
        name = b"[rank%d]:" % rank
        is_named = len(self._ranks) == 1 or line.startswith(name)
        return line if is_named else name + b" " + line


def as_seen(line: bytes) -> bytes:
    """What a terminal shows of a line that has been rewritten, as progress bars do."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]
