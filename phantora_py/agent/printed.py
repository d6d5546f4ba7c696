"""What the ranks of this host print, sent to the host that shows and keeps it."""

import threading
from collections.abc import Sequence
from pathlib import Path

from phantora_py.agent.parts import Sender
from phantora_py.launch.spool import Room, Spool, Stream, spool_path
from sim_server import simulation_pb2 as messages
from sim_server.errors import UsageError

# As soon as it is shown where it comes from (phantora_py.agent.output).
_LOOK_EVERY_S = 0.05


class Printed:
    """Reads and sends from its making until it is closed; stands in for `RankOutput`."""

    def __init__(
        self, sender: Sender, run_dir: Path, streams: Sequence[Stream], ranks: Sequence[int]
    ) -> None:
        self._sender = sender
        self._run_dir = run_dir
        self._room = Room(run_dir)
        self._spools = [
            (rank, stream, Spool(spool_path(run_dir, rank, stream)))
            for rank in ranks
            for stream in streams
        ]
        self._done = threading.Event()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def last_words(self, _rank: int) -> str:
        """The other host has them."""
        return ""

    def show_only(self, _rank: int) -> None:
        """The other host does so."""

    def check(self) -> None:
        """Raises: UsageError if it cannot be read, or was lost."""
        if self._error is not None:
            raise UsageError(
                f"What ranks print cannot be read in {self._run_dir}: {self._error.strerror}."
            )
        if self._room.lack:
            raise UsageError(
                f"There is no room left in {self._run_dir.parent} for what ranks print. Make room "
                "there or set TMPDIR to a directory that has it."
            )

    def close(self) -> None:
        """Once the ranks have ended: sends the rest."""
        if not self._done.is_set():
            self._done.set()
            self._thread.join()
            for _, _, spool in self._spools:
                spool.close()

    def _serve(self) -> None:
        try:
            while not self._done.wait(_LOOK_EVERY_S):
                self._send_all()
            self._send_all()
        except OSError as error:  # for the agent's loop, which asks
            self._error = error

    def _send_all(self) -> None:
        self._room.look()
        for rank, stream, spool in self._spools:
            while text := spool.read():
                printed = messages.Printed(stream=stream.name, text=text)
                parcels = messages.Parcels(parcels=[messages.Parcel(rank=rank, printed=printed)])
                self._sender.send(messages.FromAgent(parcels=parcels))
