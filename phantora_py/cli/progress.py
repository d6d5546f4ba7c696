"""The line that shows how far a run has come."""

import sys
import time

from rich.live import Live
from rich.text import Text

from phantora_py import __version__
from phantora_py.cli.messages import error_console
from phantora_py.launch.run import Prepared
from sim_server import simulation_pb2 as wire

_FIRST_SHOWN_S = 1.0
_REFRESHES_PER_S = 2


def print_headline(prepared: Prepared) -> None:
    """Says what is simulated, where the words of the user leave it open, and what was ignored."""
    layout = prepared.layout
    console = error_console()
    console.print(
        f"phantora {__version__}   {_count(layout.ranks, 'rank')} on "
        f"{_count(layout.nodes, 'node')} ({prepared.cluster.name})   "
        f"host time: {prepared.options.host_time}   isolation: {prepared.isolation.tier}"
    )
    for note in prepared.notes:
        console.print(f"note: {note}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Progress:
    """Shown on a terminal, from a second after the start until the ranks write to it themselves."""

    def __init__(self, prepared: Prepared, shown: bool) -> None:
        self._prepared = prepared
        self._shown = shown
        self._start_s = time.monotonic()
        self._last = wire.Progress()
        console = self._console = error_console()
        self._live: Live | None = None
        if shown and console.is_terminal:
            self._live = Live(
                console=console,
                transient=True,
                get_renderable=self._line,
                refresh_per_second=_REFRESHES_PER_S,
            )

    def started(self) -> None:
        """Prints who is about to run. Ranks that write to the terminal have it for themselves."""
        if self._live is not None and sys.stdout.isatty():
            self._live.stop()
        if self._shown:
            print_headline(self._prepared)

    def update(self, progress: wire.Progress) -> None:
        """Takes what the server said."""
        self._last = progress

    def stalled(self, message: str) -> None:
        """Prints what holds the ranks up."""
        if self._shown:
            self._console.print(Text(f"note: {message}"))

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _line(self) -> Text:
        elapsed_s = time.monotonic() - self._start_s
        if elapsed_s < _FIRST_SHOWN_S:
            return Text("")
        minutes, seconds = divmod(int(elapsed_s), 60)
        virtual_s = self._last.virtual_time_ns / 1e9
        return Text(
            f"  iteration {self._last.iterations}   virtual {virtual_s:.3g} s"
            f"   wall {minutes}m{seconds:02d}s",
            no_wrap=True,
        )
