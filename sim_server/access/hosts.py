"""What the agents of a run on several hosts have to do with each other.

**Parcels.** Ranks of different hosts exchange packets and values of tensors; their agents hand them
to the server, which passes them on.

**Who is asleep.** Each agent proves for its own host that nothing there goes on by itself
(phantora_py/agent/idle.py). That of two hosts together proves nothing: what one of them sent may be
on its way to the other. So an agent says how many parcels it had delivered when it began to look.
The server believes it if that is all that were passed on to it, until the next parcel from it or to
it. If all agents are believed at one time, then nothing is on its way, and nobody is left who could
send something: whoever is the first to go on would need a parcel that had been sent before.
"""

from __future__ import annotations

from sim_server import simulation_pb2 as messages
from sim_server.access.agents import AgentLink, Agents


def pass_on(agents: Agents, sender: AgentLink, parcels: messages.Parcels) -> None:
    """Passes parcels on, in order. What is for a rank that nobody has is dropped, as a network
    does with what is for nobody.
    """
    by_receiver: dict[AgentLink, messages.Parcels] = {}
    for parcel in parcels.parcels:
        receiver = agents.by_rank.get(parcel.rank)
        if parcel.WhichOneof("content") in {"printed", "note"}:
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
    agents: Agents, link: AgentLink, found: messages.RanksAside
) -> list[messages.RanksAside]:
    """What can be believed now that one agent has told what it found: of all hosts, or nothing. A
    guess is taken as it is.
    """
    if len(agents.links) == 1 or not found.is_quiet:
        return [found]
    if found.delivered != link.parcels:
        return []
    link.quiet = found
    others = [one for one in agents.links if not one.finished]
    told = [one.quiet for one in others if one.quiet is not None and one.quiet.stirs == found.stirs]
    if len(told) < len(others):
        return []
    for one in others:
        one.quiet = None
    return told
