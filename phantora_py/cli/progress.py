"""What the terminal shows of a run: how far it has come, and what its ranks print."""

import os
import time
from collections import deque
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from phantora_py import __version__
from phantora_py.agent.states import RankState
from phantora_py.cli.line_merger import LineMerger
from phantora_py.cli.messages import error_console
from phantora_py.cli.rank_table import rank_table
from phantora_py.launch.prepared import Prepared
from phantora_py.text.units import duration_text
from phantora_py.text.wrapping import wrapped
from sim_server import simulation_pb2 as wire

FIRST_SHOWN_S = 1.0
REFRESHES_PER_S = 2
# Where a line cannot be rewritten it is printed after so long, then each time that this has
# doubled, at least every few minutes.
_FIRST_PRINTED_S = 30.0
_PRINTED_EVERY_S = 300.0
# The rate is that of so many changes of the number of iterations.
_RATE_OVER = 8


def print_headline(prepared: Prepared, console: Console) -> None:
    """Says what is simulated, where the words of the user leave it open, and what was ignored."""
    layout, launch = prepared.layout, prepared.command.launch
    noun = "GPU" if launch is not None and launch.own_ranks else "rank"
    live = len(prepared.live_ranks)
    folded = "" if prepared.fold is None else f" as {live} process{'es' * (live > 1)}"
    console.print(
        f"phantora {__version__}   {_count(layout.ranks, noun)}{folded} on "
        f"{_count(layout.nodes, 'node')} ({prepared.cluster.name})   "
        f"host time: {prepared.options.host_time}   isolation: {prepared.isolation.tier}"
    )
    for note in prepared.notes:
        console.print(f"note: {note}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class State:
    """How far a run has come, as a line. Times are wall time unless they say virtual."""

    def __init__(self, ranks: int, iterations: int | None) -> None:
        """`iterations`: what the program will do, if the user has told."""
        self.start_s = time.monotonic()
        self.started = False
        self._ranks = ranks
        self._iterations = iterations
        self._up = 0
        self._last = wire.Progress()
        self._steps: deque[tuple[float, int]] = deque(maxlen=_RATE_OVER + 1)

    def ranks_up(self, count: int) -> None:
        self._up = count

    def update(self, progress: wire.Progress) -> None:
        if progress.iterations < self._last.iterations:
            self._steps.clear()  # more is known of what an iteration is
        if progress.iterations != self._last.iterations:
            self._steps.append((time.monotonic(), progress.iterations))
        self._last = progress

    def line(self) -> str:
        wall = f"   wall {_clock_text(time.monotonic() - self.start_s)}"
        if not self.started:
            return f"  starting{wall}"
        if not self._last.iterations and self._up < self._ranks:
            return f"  {self._up} of {_count(self._ranks, 'rank')} up{wall}{self._doing()}"
        virtual = f"virtual {self._last.virtual_time_ns / 1e9:.3g} s"
        return f"  {self._iteration()}{virtual}{wall}{self._rate()}{self._doing()}"

    def _iteration(self) -> str:
        """Empty while nothing is known to end one."""
        of = f" of {self._iterations}" if self._iterations else ""
        return f"iteration {self._last.iterations}{of}   " if self._last.iterations else ""

    def _doing(self) -> str:
        number = self._last.measuring
        return f"   measuring kernel {number} on the GPU" if number else ""

    def _rate(self) -> str:
        if len(self._steps) < 2:
            return ""
        (first_s, first), (last_s, last) = self._steps[0], self._steps[-1]
        each_s = (last_s - first_s) / (last - first)
        left_s = each_s * ((self._iterations or 0) - last) - (time.monotonic() - last_s)
        left = f", {_clock_text(max(left_s, 0))} left" if (self._iterations or 0) > last else ""
        return f" ({each_s:.3g} s an iteration{left})"


class Progress:
    """Shows them. On a terminal the state is a line beneath what the ranks print; elsewhere it is
    printed now and then.
    """

    def __init__(self, prepared: Prepared, shown: bool) -> None:
        self._prepared = prepared
        self._shown = shown
        self._state = State(len(prepared.live_ranks), prepared.options.iterations)
        self._ranks: Sequence[RankState] = ()
        self._steady: wire.Steady | None = None
        """As it was told last."""
        self._print_at_s = self._state.start_s + _FIRST_PRINTED_S
        self._mergers: dict[int, LineMerger] = {}
        self._unfinished = b""
        console = self._console = error_console()
        self._live: Live | None = None
        if shown and console.is_terminal:
            self._live = Live(
                console=console,
                transient=True,
                get_renderable=self._render,
                refresh_per_second=REFRESHES_PER_S,
            )

    def started(self) -> None:
        """Prints who is about to run, once. A rank that has the terminal has it for itself."""
        is_first, self._state.started = not self._state.started, True
        if self._live is not None and not self._prepared.streams:
            self._live.stop()
        if self._shown and is_first:
            print_headline(self._prepared, self._console)

    def ranks_up(self, count: int) -> None:
        """Takes what the agent saw."""
        self._state.ranks_up(count)

    def update(self, progress: wire.Progress) -> None:
        """Takes what the server said."""
        self._state.update(progress)
        if progress.HasField("steady") and progress.steady != self._steady:
            stops, is_again = self._prepared.options.until_steady, self._steady is not None
            self._steady = wire.Steady()
            self._steady.CopyFrom(progress.steady)
            self.note(_steady_text(self._steady, stops, is_again))

    def ranks(self, states: Sequence[RankState]) -> None:
        """Takes what the ranks do."""
        self._ranks = states

    def note(self, message: str) -> None:
        """Prints what the user should know."""
        if self._shown:
            self._console.print(Text(f"note: {message}"))

    def said(self, rank: int, descriptor: int, data: bytes) -> None:
        """Shows what a rank has printed. This and `rest` are for one thread."""
        merger = self._mergers.get(descriptor)
        if merger is None:
            merger = self._mergers[descriptor] = self._make_merger(descriptor)
        merger.add(rank, data)

    def rest(self) -> None:
        """All that ranks have printed so far has been shown."""
        for descriptor, merger in self._mergers.items():
            if self._is_beneath(descriptor):
                self._unfinished = merger.unfinished()
            else:
                merger.show_stale()
        now_s = time.monotonic()
        if self._shown and self._live is None and now_s >= self._print_at_s:
            elapsed_s = now_s - self._state.start_s
            self._print_at_s = now_s + min(elapsed_s, _PRINTED_EVERY_S)
            self._console.print(Text(self._state.line()))

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor, merger in self._mergers.items():
            merger.end(fresh_line=os.isatty(descriptor))
        if self._live is not None:
            self._unfinished = b""
            self._live.stop()

    def _is_beneath(self, descriptor: int) -> bool:
        """Whether the line of the state is beneath what goes there."""
        return self._live is not None and os.isatty(descriptor)

    def _make_merger(self, descriptor: int) -> LineMerger:
        if self._is_beneath(descriptor):
            return LineMerger(self._print_lines, by_line=True)
        return LineMerger(lambda data: _write_all(descriptor, data))

    def _print_lines(self, data: bytes) -> None:
        """The line of the state makes room for them."""
        self._console.out(data.decode(errors="replace"), end="", highlight=False)

    def _render(self) -> RenderableType:
        if time.monotonic() - self._state.start_s < FIRST_SHOWN_S:
            return Text("")
        shown: list[RenderableType] = [*wrapped(Text(self._state.line()), self._console.width)]
        if self._unfinished:
            text = self._unfinished.decode(errors="replace")
            shown.insert(0, Text.from_ansi(text, no_wrap=True))
        if self._prepared.options.live and self._ranks:
            folded = self._prepared.fold is not None
            numbers = self._prepared.live_ranks if folded else None
            shown.append(rank_table(self._ranks, numbers))
        return Group(*shown)


def _clock_text(duration_s: float) -> str:
    minutes, seconds = divmod(int(duration_s), 60)
    return f"{minutes}m{seconds:02d}s"


def _steady_text(steady: wire.Steady, stops: bool, is_again: bool) -> str:
    told = "something else ends iterations now; " if is_again else ""
    told += (
        f"the iteration time has settled after iteration {steady.iterations}, at virtual "
        f"{duration_text(steady.time_ns)}: {duration_text(steady.median_ns)}"
    )
    if is_again:
        return told
    return f"{told}; the run stops there" if stops else f"{told} (--until-steady stops there)"


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
