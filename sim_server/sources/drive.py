"""A simulation of ranks that are not live, in this process.

A rank's records are fed up to its next wait and go on when that is answered, so that every gap
counts from the moment of the answer, as in a live rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sim_server._engine import MalformedInput
from sim_server.errors import (
    Deadlock,
    InternalError,
    Mismatch,
    RankFailed,
    UnsupportedCall,
    UsageError,
)
from sim_server.simulation import Simulation
from sim_server.sources.source import RankSource

# Ranks that are named when a simulation cannot go on; the others stand where these do (assumed).
_MOST_NAMED = 8


def drive(
    simulation: Simulation,
    ranks: Sequence[RankSource],
    exits: Mapping[int, int],
    write: Callable[[str, bytes], None],
    *,
    broke_off: bool = False,
) -> None:
    """Simulates all ranks that have records of their own to their end.

    `exits`: the exit codes of processes, by rank, where they are known. `write` takes the pieces of
    the data file that are ready; the rest is `Simulation.files`. `broke_off`: the sources end in
    the middle of a run, each somewhere else, and the simulation goes as far as they go together.

    Raises: PhantoraError as a live run does, at the same point of its history; an unsupported call
    once everything that the ranks had done has been simulated; InternalError if ranks have records
    left that they do not get to.
    """
    driver = _Driver(simulation, ranks, exits, write)
    end: Deadlock | RankFailed | None = None
    try:
        while not simulation.is_over and driver.turn():
            pass
    except MalformedInput as error:
        raise UsageError(f"the recording is damaged: {error}") from error
    except Mismatch:
        raise
    except (Deadlock, RankFailed) as error:
        end = error
    if driver.unsupported is not None:
        raise driver.unsupported
    if broke_off:
        return
    _check_all_fed(ranks, end)
    if end is not None:
        raise end


class _Driver:
    """Takes the place of the agents."""

    def __init__(
        self,
        simulation: Simulation,
        ranks: Sequence[RankSource],
        exits: Mapping[int, int],
        write: Callable[[str, bytes], None],
    ) -> None:
        self.unsupported: UnsupportedCall | None = None
        self._simulation = simulation
        self._ranks = {source.rank: source for source in ranks}
        self._exits = exits
        self._write = write
        self._going = dict(self._ranks)

    def turn(self) -> bool:
        """Every rank goes on as far as it can, then virtual time does. False: nothing moved."""
        moved = False
        for rank in list(self._going.values()):
            if not rank.waiting:
                moved |= self._go_on(rank)
        for reply in self._simulation.advance():
            moved = True
            self._ranks[reply.rank].answer(reply)
        for name, content in self._simulation.pieces():
            self._write(name, content)
        return moved

    def _go_on(self, source: RankSource) -> bool:
        rank = source.rank
        cells = source.take()
        try:
            self._simulation.feed(rank, cells, 0)
        except UnsupportedCall as error:
            self.unsupported = self.unsupported or error
        if source.is_outside:
            self._simulation.set_aside(rank, self._simulation.wakeups)
        if source.ended and (rank in self._exits or not source.waiting):
            self._simulation.leave(rank, self._exits.get(rank))
            del self._going[rank]
            return True
        return bool(cells)


def _check_all_fed(ranks: Sequence[RankSource], end: Exception | None) -> None:
    """Raises: InternalError if a rank has records left: in the run it got further."""
    left = [where for rank in ranks if (where := rank.where()) is not None]
    if not left:
        return
    others = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
    raise InternalError(
        "The resimulation came to a halt before the recording did: "
        f"{', '.join(left[:_MOST_NAMED])}{others}. This is a fault of phantora, and the result "
        "would be wrong; run the program again instead, and please report it with the recording."
    ) from end
