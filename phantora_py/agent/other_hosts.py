"""This host's part in a run on several: what is carried, what its ranks print, what is proven.

See sim_server/access/hosts.py for what is made of the proofs of all hosts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from phantora_py.agent.idle import StillWatch
from phantora_py.agent.kept_files import KeptFiles
from phantora_py.agent.printed import Printed
from phantora_py.agent.relay import Relay


class OtherHosts:
    """Between the loop of the agent and what is carried. `printed` and `kept`: send what the ranks
    of this host print and leave to the one that keeps the data file; None if that is this one.
    """

    def __init__(
        self, relay: Relay, printed: Printed | None = None, kept: KeptFiles | None = None
    ) -> None:
        self._relay = relay
        self._printed = printed
        self._kept = kept
        self._waits = False
        self._stirs = 0
        self._seen = 0
        self._stirring = 0
        self._delivered = 0
        self._sees_stir = False

    def await_proof(self, stalled: bool, stirs: int) -> None:
        """See phantora_py.agent.agent.OtherHosts, as for all of these."""
        self._waits = stalled
        self._sees_stir |= stirs != self._stirs
        self._stirs = stirs

    def is_due(self) -> bool:
        return self._waits and self._relay.delivered != self._seen

    def look(self, still: StillWatch) -> None:
        delivered, stirring = self._relay.delivered, self._relay.stirring
        if delivered != self._seen or self._sees_stir:
            still.forget(stirring != self._stirring or self._sees_stir)
        self._sees_stir = False
        self._seen, self._stirring = delivered, stirring
        self._delivered = delivered

    def proof(self, still: StillWatch, guess: bool) -> int | None:
        sent = self._relay.send_rest()
        return self._delivered if (still.is_quiet or guess) and not sent else None

    def check(self) -> None:
        self._relay.check()
        if self._printed is not None:
            self._relay.check_server()
            self._printed.check()

    def check_kept(self) -> None:
        self._relay.check()

    def close(
        self, host_memory: Mapping[str, Any], by_machine: Sequence[Mapping[str, float]]
    ) -> None:
        if self._printed is not None:
            self._printed.close()
        if self._kept is not None:
            self._kept.send(host_memory, by_machine)
        self._relay.close()
