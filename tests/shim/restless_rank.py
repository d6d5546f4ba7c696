"""The rank of test_restless_helpers.py: a helper thread asks after events while nothing else
happens.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from rank_device import cuda, run_scenario

# Of one helper, after which each question is a wait (csrc/shim/waiting/restless_helpers.cc).
QUESTIONS = 10_001


def record_events(count: int) -> list[ctypes.c_void_p]:
    """Each is the first of its stream."""
    events = [ctypes.c_void_p() for _ in range(count)]
    for event in events:
        stream = ctypes.c_void_p()
        assert cuda.cudaStreamCreate(ctypes.byref(stream)) == 0
        assert cuda.cudaEventCreate(ctypes.byref(event)) == 0
        assert cuda.cudaEventRecord(event, stream) == 0
    return events


def is_done(event: ctypes.c_void_p) -> bool:
    """A question."""
    return bool(cuda.cudaEventQuery(event) == 0)


def in_helper(work: Callable[[], None]) -> None:
    """While the main thread only waits for it; until the kernel has forgotten it, too."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        pass


def in_turn() -> Mapping[str, object]:
    """After two events; after the third one once, upon which the second is done."""
    first, second, third = record_events(3)
    seen = []

    def ask() -> None:
        for _ in range(QUESTIONS // 2 + 3):
            seen.extend([is_done(first), is_done(second)])
        seen.append(is_done(third))
        while not is_done(second):
            seen.append(is_done(first))

    in_helper(ask)
    return {"seen": any(seen)}


def many() -> Mapping[str, object]:
    """After one event until the helper is restless, and then after ten others, once each; not after
    those of the other scenario.
    """
    first, _, _, *others = record_events(13)
    seen = []

    def ask() -> None:
        seen.extend([is_done(first) for _ in range(QUESTIONS + 1)])
        seen.extend([is_done(event) for event in others])

    in_helper(ask)
    return {"seen": any(seen)}


if __name__ == "__main__":
    run_scenario(globals()[sys.argv[1]])
