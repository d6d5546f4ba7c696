"""A helper thread waits for the device while the main thread only waits for the helper.

Prints a JSON object for the rank: how long each way took in virtual time, in nanoseconds, and how
long after the first of two things was done the main thread heard of it.
"""

import json
import os
import threading
import time
from collections.abc import Callable

import torch

RANK = int(os.environ["RANK"])
MATRICES = 20 * (RANK + 1)


def poll(events: list[torch.cuda.Event]) -> None:
    """Without a pause, as PyTorch's watchdog does when its process group is destroyed."""
    while not all([event.query() for event in events]):  # each is asked in each turn
        pass


def poll_for_any(events: list[torch.cuda.Event]) -> None:
    while not any([event.query() for event in events]):
        pass


def in_thread(wait: Callable[[list[torch.cuda.Event]], None]) -> Callable[..., None]:
    def join(events: list[torch.cuda.Event]) -> None:
        thread = threading.Thread(target=wait, args=(events,))
        thread.start()
        thread.join()

    return join


def synchronize(events: list[torch.cuda.Event]) -> None:
    for event in events:
        event.synchronize()


def heard_of_first_after_ns(matrix: torch.Tensor) -> float:
    """The helper asks after what is done last, and after what is done first."""
    begin, *ends = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    torch.cuda.synchronize()
    start_ns = time.monotonic_ns()
    begin.record()
    for end, count in zip(ends, (MATRICES * 3, MATRICES), strict=True):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(count):
                matrix @ matrix
            end.record()
    in_thread(poll_for_any)(ends)
    heard_ns = time.monotonic_ns() - start_ns
    torch.cuda.synchronize()
    return heard_ns - float(1e6 * begin.elapsed_time(ends[1]))


def main() -> None:
    matrix = torch.ones(4096, 4096, device="cuda")
    matrix @ matrix  # the first product takes longer
    took = {}
    for name, wait in {
        "main thread": synchronize,
        "helper": in_thread(synchronize),
        "helper that polls": in_thread(poll),
    }.items():
        torch.cuda.synchronize()
        start_ns = time.monotonic_ns()
        events = []
        for _ in range(3):
            for _ in range(MATRICES):
                matrix @ matrix
            events.append(torch.cuda.Event())
            events[-1].record()
        wait(events)
        took[name] = time.monotonic_ns() - start_ns
    told = {"took": took, "heard of first": heard_of_first_after_ns(matrix)}
    print(json.dumps({RANK: told}), flush=True)


if __name__ == "__main__":
    main()
