"""A helper thread waits for the device while the main thread only waits for the helper.

Prints a JSON object for the rank: how long each way took in virtual time, in nanoseconds.
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


def in_thread(wait: Callable[[list[torch.cuda.Event]], None]) -> Callable[..., None]:
    def join(events: list[torch.cuda.Event]) -> None:
        thread = threading.Thread(target=wait, args=(events,))
        thread.start()
        thread.join()

    return join


def synchronize(events: list[torch.cuda.Event]) -> None:
    for event in events:
        event.synchronize()


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
    print(json.dumps({RANK: took}), flush=True)


if __name__ == "__main__":
    main()
