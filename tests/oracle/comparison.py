"""A program in oracle and system: what differs, and the line that shows it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from histories import History, differences
from host_programs import Program
from oracle import Oracle
from system import Delivery, System

SHOWN = 20


def compare(program: Program, deliveries: Sequence[Delivery], expected: History) -> list[str]:
    """What differs between a history and the system's under the first delivery where it does."""
    digests = set()
    for delivery in deliveries:
        system = System(program, delivery).run()
        found = [f"{line} ({delivery})" for line in differences(expected, system)]
        if found:
            return found
        if not delivery.sets_aside:  # the waits of ranks that come back are in the data
            digests.add(system.digest)
    return [f"{len(digests)} digests of one program"] if len(digests) > 1 else []


def check(program: Program, delivery: Delivery) -> None:
    """Raises AssertionError when oracle and system differ, with the line that replays it."""
    deliveries = (Delivery(), replace(delivery, sets_aside=False), delivery)
    replay = f"python tests/oracle/replay.py {delivery.seed} '{program}'"
    try:
        found = compare(program, deliveries, Oracle(program).run())
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{replay}") from error
    lines = [*found[:SHOWN], *([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])]
    assert not found, "\n".join([*lines, replay])
