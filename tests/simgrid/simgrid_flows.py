"""Flows in SimGrid, as a program: problems as JSON on the standard input, results on the output.

A program, because a process can have one SimGrid engine only, and the library of the package is
found by LD_LIBRARY_PATH only. SimGrid's model is reduced to max-min fair sharing with caps: no
factors for bandwidth and latency, no traffic of acknowledgements, no weights by round-trip time, no
window.

    {"problems": [{"capacities": [bytes/s, ...],
                   "flows": [{"path": [link, ...], "size_bytes": , "cap": null, "start_s": ,
                              "ends": [source, destination]}]}]}
    -> {"version": "4.1.0", "setup_s": , "run_s": , "ends_s": [[...], ...]}

Problems share no link, so that one engine solves all of them at once. Without "ends" a flow has end
points of its own; flows between the same two have one path, and no caps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_CONFIGURATION = (
    "--log=root.thres:critical",
    "--cfg=network/model:CM02",
    "--cfg=network/bandwidth-factor:1",
    "--cfg=network/latency-factor:1",
    "--cfg=network/crosstraffic:0",
    "--cfg=network/weight-S:0",
    "--cfg=network/TCP-gamma:0",
)


def is_installed() -> bool:
    """Whether the package is there; it is not imported."""
    return _library_folder() is not None


def _library_folder() -> str | None:
    """Where the package's library is; a folder of tests of that name has no origin."""
    spec = find_spec("simgrid")
    return None if spec is None or spec.origin is None else str(Path(spec.origin).parent)


def solve(problems: list[dict[str, Any]], limit_s: float = 600) -> dict[str, Any]:
    """What this program prints for these problems."""
    libraries = [_library_folder(), os.environ.get("LD_LIBRARY_PATH")]
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps({"problems": problems}),
        env={**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, libraries))},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def _start_problem(engine: Any, root: Any, number: int, problem: dict[str, Any]) -> list[float]:
    """Build one problem's network, and an actor that starts its flows. Returns: its ends, later."""
    from simgrid import Comm, LinkInRoute, this_actor  # noqa: PLC0415 - see solve()

    zone = root.add_netzone_full(f"zone {number}")
    links = [
        LinkInRoute(zone.add_link(f"link {number}.{index}", float(capacity)))
        for index, capacity in enumerate(problem["capacities"])
    ]
    flows = problem["flows"]
    hosts: dict[object, Any] = {}
    routes: dict[object, tuple[Any, Any]] = {}
    for index, flow in enumerate(flows):
        ends = tuple(flow.get("ends") or (f"source {index}", f"destination {index}"))
        if ends not in routes:
            for end in ends:
                if end not in hosts:
                    hosts[end] = zone.add_host(f"{end} of {number}", 1e9)
            path = [links[link] for link in flow["path"]]
            if flow["cap"] is not None:
                # Python's Comm cannot have a rate; a link of its own bounds a flow in the same way.
                path.append(LinkInRoute(zone.add_link(f"cap {number}.{index}", flow["cap"])))
            routes[ends] = (hosts[ends[0]], hosts[ends[1]])
            zone.add_route(*routes[ends], path, False)
        flow["ends"] = ends
    driver = zone.add_host(f"driver {number}", 1e9)
    zone.seal()
    ends_s: list[float] = [-1.0] * len(flows)

    def start_all() -> None:
        comms = []
        for index in sorted(range(len(flows)), key=lambda index: flows[index]["start_s"]):
            this_actor.sleep_until(flows[index]["start_s"])
            comm = Comm.sendto_init(*routes[flows[index]["ends"]])
            comm.set_payload_size(int(flows[index]["size_bytes"]))
            comms.append((index, comm.start()))
        for index, comm in comms:
            comm.wait()
            ends_s[index] = comm.finish_time

    driver.add_actor(f"driver {number}", start_all)
    return ends_s


def main() -> None:
    """Solve the problems of the standard input."""
    import simgrid  # noqa: PLC0415 - see solve()

    problems = json.load(sys.stdin)["problems"]
    start_s = time.process_time()
    engine = simgrid.Engine(["simgrid_flows", *_CONFIGURATION])
    root = engine.netzone_root
    ends_s = [
        _start_problem(engine, root, number, problem) for number, problem in enumerate(problems)
    ]
    built_s = time.process_time()
    engine.run()
    run_s = time.process_time() - built_s
    json.dump(
        {
            "version": simgrid.simgrid_version,
            "setup_s": built_s - start_s,
            "run_s": run_s,
            "ends_s": ends_s,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
