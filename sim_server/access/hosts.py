"""What the agents of a run on several hosts have to do with each other.

**Parcels.** Ranks of different hosts exchange packets and values of tensors; their agents hand them
to the server, which passes them on.

**Who is asleep.** Each agent proves for its own host that nothing there goes on by itself
(phantora_py/agent/idle.py). That of two hosts together proves nothing: what one of them sent may be
on its way to the other. So an agent says how many parcels it had delivered when it began to look.
The server believes it if that is all that were passed on to it, until the next parcel from it or to
it. If all agents are believed at one time, then nothing is on its way, and nobody is left who could
send something: whoever is the first to go on would need a parcel that had been sent before.

A rank's main thread may be at work all the same: what it sends waits for its turn in virtual time.
Values of tensors do not. So a rank that waits for them is asleep only if no rank is at work on any
host, which the server alone knows.

**Who has gone.** A host that is switched off, or a link that is cut, says nothing. So agents and
server say something twice a second, if only that they are there: an empty message of parcels.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from sim_server import simulation_pb2 as messages
from sim_server.access.agents import OF_ITS_RANKS, AgentLink, Agents

SIGN_OF_LIFE_S = 0.5
SILENCE_S = 3.0
"""After that the other side has gone (assumed: longer than a busy machine says nothing)."""


def heard(link: AgentLink, message: messages.FromAgent) -> None:
    """Something has come from an agent; by the thread that takes it."""
    if link.heard_s is not None or message.HasField("parcels"):
        link.heard_s = time.monotonic()


def silent(agents: Agents) -> list[AgentLink]:
    """Agents that have gone without a word. The first is on the server's own host, and may have
    been stopped at a terminal.
    """
    now_s = time.monotonic()
    return [
        one
        for one in agents.links[1:]
        if not one.finished and one.heard_s is not None and now_s - one.heard_s > SILENCE_S
    ]


def pass_on(agents: Agents, sender: AgentLink, parcels: messages.Parcels) -> None:
    """Passes parcels on, in order. What is for a rank that nobody has is dropped, as a network
    does with what is for nobody.
    """
    by_receiver: dict[AgentLink, messages.Parcels] = {}
    for parcel in parcels.parcels:
        receiver = agents.by_rank.get(parcel.rank)
        if parcel.WhichOneof("content") in {"note", *OF_ITS_RANKS}:
            receiver = agents.links[0]
        else:
            sender.quiet = None
            if receiver is not None:
                receiver.quiet = None
                receiver.parcels += 1
        if receiver is not None:
            by_receiver.setdefault(receiver, messages.Parcels()).parcels.append(parcel)
    for receiver, theirs in by_receiver.items():
        receiver.outbox.put(messages.ToAgent(parcels=theirs))


def proven_aside(
    agents: Agents, link: AgentLink, found: messages.RanksAside, held_up_by: Iterable[int]
) -> Sequence[messages.RanksAside]:
    """What can be believed now that one agent has told what it found: of all hosts, or nothing. A
    guess is taken as it is. `held_up_by`: the ranks that the simulation waits for.
    """
    if len(agents.links) == 1 or not found.is_quiet:
        return [found]
    if found.delivered != link.parcels:
        return []
    link.quiet = found
    others = [one for one in agents.links if not one.finished]
    told = [
        one.quiet for one in others if one.quiet is not None and one.quiet.wakeups == found.wakeups
    ]
    if len(told) < len(others):
        return []
    for one in others:
        one.quiet = None
    all_are_still = set(held_up_by) <= {rank for one in told for rank in one.ranks}
    return told if all_are_still else [_without_waits_for_values(one) for one in told]


def _without_waits_for_values(found: messages.RanksAside) -> messages.RanksAside:
    """Values of tensors take no virtual time: whoever still runs is about to send them."""
    left = messages.RanksAside()
    left.CopyFrom(found)
    del left.ranks[:], left.await_values[:]
    left.ranks.extend(rank for rank in found.ranks if rank not in found.await_values)
    return left
