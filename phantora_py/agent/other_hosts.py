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
        self._wakeups = 0
        self._seen = 0
        self._waking = 0
        self._delivered = 0
        self._sees_wakeup = False
        self._told_bytes = 0

    def await_proof(self, stalled: bool, wakeups: int) -> None:
        """See phantora_py.agent.agent.OtherHosts, as for all of these."""
        self._waits = stalled
        self._sees_wakeup |= wakeups != self._wakeups
        self._wakeups = wakeups

    def is_due(self) -> bool:
        return self._waits and self._relay.delivered != self._seen

    def look(self, still: StillWatch) -> None:
        delivered, waking = self._relay.delivered, self._relay.waking
        if delivered != self._seen or self._sees_wakeup:
            still.forget(waking != self._waking or self._sees_wakeup)
        self._sees_wakeup = False
        self._seen, self._waking = delivered, waking
        self._delivered = delivered

    def proof(self, still: StillWatch, guess: bool) -> int | None:
        sent = self._relay.send_rest()
        return self._delivered if (still.is_quiet or guess) and not sent else None

    def check(self) -> None:
        self._relay.check()
        if self._printed is not None:
            self._relay.check_server()
            self._printed.check()

    def tell_memory(self, taken_bytes: int) -> None:
        if self._kept is not None and taken_bytes != self._told_bytes:
            self._told_bytes = taken_bytes
            self._kept.tell_memory(taken_bytes)

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
        if self._printed is not None:
            self._printed.check()
