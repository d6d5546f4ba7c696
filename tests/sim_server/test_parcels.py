"""What agents of several hosts have to do with each other: parcels, proofs, silence."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from sim_server import simulation_pb2 as messages
from sim_server.access import hosts
from sim_server.access.agents import AgentLink, Agents


def make_agents(count: int) -> Agents:
    """Agent i has rank i."""
    agents = Agents(count)
    for rank in range(count):
        link = AgentLink(ranks=frozenset({rank}))
        agents.links.append(link)
        agents.by_rank[rank] = link
    return agents


def parcels(*ranks: int) -> messages.Parcels:
    return messages.Parcels(parcels=[messages.Parcel(rank=rank, packet=b"!") for rank in ranks])


def taken(link: AgentLink) -> list[messages.Parcel]:
    """What was passed on to an agent."""
    message = link.outbox.get()
    assert isinstance(message, messages.ToAgent)
    return list(message.parcels.parcels)


def quiet(
    *ranks: int, delivered: int = 0, wakeups: int = 1, await_values: Sequence[int] = ()
) -> messages.RanksAside:
    return messages.RanksAside(
        ranks=ranks,
        wakeups=wakeups,
        is_quiet=True,
        delivered=delivered,
        await_values=await_values,
    )


def proven(
    agents: Agents, link: AgentLink, found: messages.RanksAside, held_up_by: Sequence[int] = (0, 1)
) -> list[messages.RanksAside]:
    return list(hosts.proven_aside(agents, link, found, held_up_by))


def test_parcels_go_to_the_agent_of_the_rank_in_order() -> None:
    agents = make_agents(3)
    first, second, third = agents.links
    hosts.pass_on(agents, first, parcels(1, 2, 1, 7))
    assert [link.parcels for link in agents.links] == [0, 2, 1]
    assert [one.rank for one in taken(second)] == [1, 1]
    assert taken(third)[0].packet == b"!"
    assert first.outbox.empty()


def test_output_goes_to_the_first_agent_and_wakes_nobody() -> None:
    agents = make_agents(2)
    first, second = agents.links
    second.quiet = quiet()
    printed = messages.Parcel(rank=1, printed=messages.Printed(stream="log", text=b"x"))
    hosts.pass_on(agents, second, messages.Parcels(parcels=[printed]))
    assert taken(first)[0].printed.text == b"x"
    assert (first.parcels, second.quiet) == (0, quiet())


def test_memory_of_a_host_goes_to_the_first_agent() -> None:
    """And is that of the sender's own ranks."""
    agents = make_agents(2)
    first, second = agents.links
    told = messages.Parcels(parcels=[messages.Parcel(rank=1, memory_bytes=7)])
    assert second.fault(messages.FromAgent(parcels=told)) == ""
    hosts.pass_on(agents, second, told)
    assert taken(first)[0].memory_bytes == 7
    assert first.parcels == 0
    fault = first.fault(messages.FromAgent(parcels=told))
    assert fault == "sent output or memory of rank 1, which is not its own"


def test_one_agent_is_believed_alone() -> None:
    agents = make_agents(1)
    assert proven(agents, agents.links[0], quiet(0)) == [quiet(0)]


def test_all_hosts_have_to_be_quiet_at_one_time() -> None:
    agents = make_agents(2)
    first, second = agents.links
    assert proven(agents, first, quiet(0)) == []
    assert proven(agents, second, quiet()) == [quiet(0), quiet()]
    assert proven(agents, second, quiet()) == [], "each finding counts once"


def test_what_is_on_its_way_voids_findings() -> None:
    """Sent after the sender's finding, or not yet delivered when the receiver looked."""
    agents = make_agents(2)
    first, second = agents.links
    assert proven(agents, first, quiet(0)) == []
    hosts.pass_on(agents, first, parcels(1))
    assert proven(agents, second, quiet(1)) == [], "it has not had the parcel"
    assert proven(agents, second, quiet(1, delivered=1)) == [], "the first went on"
    assert proven(agents, first, quiet()) == [quiet(), quiet(1, delivered=1)]


def test_a_finding_before_a_wakeup_does_not_count() -> None:
    agents = make_agents(2)
    first, second = agents.links
    assert proven(agents, first, quiet(0, wakeups=1)) == []
    assert proven(agents, second, quiet(1, wakeups=2)) == []


def test_who_waits_for_values_is_asleep_only_if_nobody_runs() -> None:
    """The rank that still runs may send them before its turn comes."""
    agents = make_agents(2)
    first, second = agents.links
    waiting = quiet(0, await_values=[0])
    assert proven(agents, first, waiting) == []
    assert proven(agents, second, quiet()) == [quiet(), quiet()], "rank 1 runs"
    assert proven(agents, first, waiting) == []
    assert proven(agents, second, quiet(1)) == [waiting, quiet(1)]


def test_an_agent_that_has_finished_is_not_waited_for() -> None:
    agents = make_agents(2)
    agents.links[1].finished = True
    assert proven(agents, agents.links[0], quiet(0)) == [quiet(0)]


def test_a_guess_is_taken_as_it_is() -> None:
    agents = make_agents(2)
    guess = messages.RanksAside(ranks=[0], wakeups=1)
    assert proven(agents, agents.links[0], guess) == [guess]


def test_who_says_nothing_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has begun to give signs of life; but not the first, which is on this host."""
    agents = make_agents(3)
    for link in agents.links[:2]:
        hosts.heard(link, messages.FromAgent(parcels=messages.Parcels()))
    hosts.heard(agents.links[2], messages.FromAgent(batch=messages.Batch()))
    assert hosts.silent(agents) == []
    later_s = time.monotonic() + 2 * hosts.SILENCE_S
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    assert hosts.silent(agents) == [agents.links[1]]
