"""Who waits for the answer to a question that never came to the server."""

import pytest

from phantora_py.agent.unasked import Unasked
from sim_server import simulation_pb2 as wire


@pytest.mark.parametrize("taken", [0, 64, 128])
def test_only_if_the_server_has_all_that_the_rank_sent(taken: int) -> None:
    """A busy server may take long to come to a question that is on its way."""
    now_s = iter((0.0, 9.0, 11.0))
    unasked = Unasked(lambda: next(now_s))
    unasked.sends(3, bytes(64))
    unasked.sends(3, bytes(64))
    unasked.told(wire.Stalled(held_up_by=[3, 5], taken=[taken, 0]))
    found = [list(unasked.find({3})) for _ in range(3)]
    assert found == [[], [], [3] if taken == 128 else []]


@pytest.mark.parametrize("event", ["asks", "got on", "waits no more"])
def test_time_begins_anew(event: str) -> None:
    """When the rank asks, the simulation makes progress, or the rank has its answer."""
    now_s = iter((0.0, 11.0, 12.0, 20.0, 24.0))
    unasked = Unasked(lambda: next(now_s))
    unasked.told(wire.Stalled(held_up_by=[3], taken=[0]))
    assert list(unasked.find({3})) == []
    if event == "asks":
        unasked.asks(3)
    elif event == "got on":
        unasked.got_on()
    found = [list(unasked.find(() if event == "waits no more" else {3}))]
    found += [list(unasked.find({3})) for _ in range(3)]
    assert found[:3] == [[], [], []]
    assert found[3] == [3]
