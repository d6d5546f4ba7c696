"""Launches many long kernels; says how long its host took to launch them, and waited afterwards."""

import json
import time

import torch

LONG = 1 << 26  # elements: some hundred microseconds to add to


def issue(count: int, streams: list[torch.cuda.Stream]) -> dict[str, float]:
    """Seconds until `count` kernels are launched on each stream, and until they have ended."""
    values = torch.zeros(LONG, device="cuda")
    torch.cuda.synchronize()
    begin_s = time.perf_counter()
    for _ in range(count):
        for stream in streams:
            with torch.cuda.stream(stream):
                values.add_(1)
    issued_s = time.perf_counter()
    torch.cuda.synchronize()
    return {"launching": issued_s - begin_s, "waiting": time.perf_counter() - issued_s}


def replay(count: int) -> dict[str, float]:
    """The same of a graph of `count` kernels that is launched four times."""
    values = torch.zeros(LONG, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            values.add_(1)
    torch.cuda.synchronize()
    begin_s = time.perf_counter()
    for _ in range(4):
        graph.replay()
    issued_s = time.perf_counter()
    torch.cuda.synchronize()
    return {"launching": issued_s - begin_s, "waiting": time.perf_counter() - issued_s}


def main() -> None:
    one, other = torch.cuda.current_stream(), torch.cuda.Stream()
    said = {
        "few": issue(700, [one]),
        "few on both": issue(700, [one, other]),
        "many": issue(3000, [one]),
        "graph": replay(1500),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
