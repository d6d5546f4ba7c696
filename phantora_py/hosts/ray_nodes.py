"""Commands on the nodes of a Ray cluster, each run by an actor of its own.

    python -m phantora_py.hosts.ray_nodes hold GROUP COUNT
    python -m phantora_py.hosts.ray_nodes run GROUP NODE WORD...

`hold` makes a placement group, which reserves a processor of so many nodes, prints their names,
ours first, as a line of JSON, and keeps it until its standard input ends. `run` has a command's
standard input, output, error and status as if it ran here. Ray stays out of the process of the run:
it starts threads and takes signals for itself.

Source: Ray's reference of ray.init, ray.nodes, actors, placement groups and
PlacementGroupSchedulingStrategy, of version 2.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

REFUSED = 255
"""Exit code where Ray has started nothing; the error says why."""
# Placement groups are found by name within it.
_NAMESPACE = "phantora"
# A share of a node's own resource, by which a bundle gets that node.
_TRACE = 0.001
HOLD_LIMIT_S = 60
"""What a user waits for nodes of which others have the processors, as for any agent (assumed)."""


def main() -> NoReturn:
    """As above."""
    # Ray prints where it likes to; what it prints is no output of ours.
    try:
        import ray  # noqa: PLC0415 - an extra
        import ray.exceptions  # noqa: PLC0415
    except ImportError:
        _refuse("--engine ray needs Ray. To install it: pip install 'phantora[ray]'")
    verb, group, *words = sys.argv[1:]
    if verb == "hold":
        threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            ray.init("auto", namespace=_NAMESPACE, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        _refuse(f"no cluster of Ray is found ({error}). Start one: ray start --head")
    try:
        if verb == "hold":
            print(json.dumps(_hold(ray, group, int(words[0]))), flush=True)
            threading.Event().wait()
        sys.exit(_run(ray, group, words[0], words[1:]))
    except ray.exceptions.RayError as error:
        _refuse(str(error).strip())


def _end_with_input() -> NoReturn:
    """A placement group goes with the process that has made it."""
    for _ in _input():
        pass
    os._exit(0)


def _input() -> Iterator[bytes]:
    """What comes on standard input; not by `sys.stdin`, whose lock Python waits for at its end."""
    while data := os.read(0, 1 << 16):
        yield data


def _refuse(why: str) -> NoReturn:
    print(" ".join(why.split()), file=sys.stderr)
    sys.exit(REFUSED)


def _names(ray: Any) -> dict[str, str]:
    """Ray's identifiers of the nodes that live, by address; of nodes that share one, by both."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    sharing = Counter(node["NodeManagerAddress"] for node in alive)
    named = {}
    for node in alive:
        address, identifier = node["NodeManagerAddress"], node["NodeID"]
        named[address if sharing[address] == 1 else f"{address}/{identifier[:12]}"] = identifier
    return named


def _hold(ray: Any, group: str, count: int) -> list[str]:
    """The names of the nodes of a new placement group, in the order of its bundles; ours first."""
    from ray.util import placement_group  # noqa: PLC0415

    names = _names(ray)
    if len(names) < count:
        _refuse(f"its cluster has {len(names)} nodes and the run is to have {count}.")
    own = ray.get_runtime_context().get_node_id()
    address = next(one["NodeManagerAddress"] for one in ray.nodes() if one["NodeID"] == own)
    bundles: list[dict[str, float]] = [{"CPU": 1} for _ in range(count)]
    bundles[0][f"node:{address}"] = _TRACE
    held = placement_group(bundles, strategy="STRICT_SPREAD", name=group)
    if not held.wait(HOLD_LIMIT_S):
        _refuse(
            f"its cluster has no {count} nodes with a free processor each, this one among them, "
            f"within {HOLD_LIMIT_S} s. See: ray status"
        )
    nodes = _nodes(held)
    return [next(name for name in names if names[name] == node) for node in nodes]


def _nodes(group: Any) -> list[str]:
    """Ray's identifiers of the nodes of a placement group, by bundle."""
    from ray.util import placement_group_table  # noqa: PLC0415

    places: dict[int, str] = placement_group_table(group)["bundles_to_node_id"]
    return [places[bundle] for bundle in sorted(places)]


def _run(ray: Any, group: str, name: str, words: Sequence[str]) -> int:
    """Exit code of a command on a node of the group. Raises: RayError if the node is gone."""
    from ray.util import get_placement_group  # noqa: PLC0415
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415

    node = _names(ray).get(name)
    if node is None:
        _refuse(f"node {name} has left the cluster")
    held = get_placement_group(group)
    place = PlacementGroupSchedulingStrategy(held, _nodes(held).index(node))
    # One call waits for output while others pass on input.
    options = {
        "num_cpus": 1,
        "max_concurrency": 3,
        "scheduling_strategy": place,
    }
    command = ray.remote(_command()).options(**options).remote(list(words))
    ray.get(command.__ray_ready__.remote())

    def pass_on() -> None:
        for data in _input():
            command.write.remote(data)
        command.end_input.remote()

    threading.Thread(target=pass_on, daemon=True).start()
    while True:
        output, errors, status = ray.get(command.read.remote())
        for stream, said in ((sys.stdout, output), (sys.stderr, errors)):
            stream.buffer.write(said)
            stream.flush()
        if status is not None:
            return int(status) if status >= 0 else 128 - int(status)


def _command() -> type:
    """The actor's class. Ray sends a class within a function as it is; its worker may have another
    module of this name, in a checkout.
    """

    class Command:
        """A process. Its standard input closes with the actor, so that an agent ends with it."""

        def __init__(self, words: list[str]) -> None:
            import queue  # noqa: PLC0415
            import subprocess  # noqa: PLC0415
            import threading  # noqa: PLC0415

            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
            )
            self._said: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
            self._open = 2
            for place, stream in enumerate((self._process.stdout, self._process.stderr)):
                threading.Thread(target=self._listen, args=(place, stream), daemon=True).start()

        def _listen(self, place: int, stream: Any) -> None:
            while said := stream.read(1 << 16):
                self._said.put((place, said))
            self._said.put((place, b""))

        def write(self, data: bytes) -> None:
            """To its standard input, if it still reads."""
            import contextlib  # noqa: PLC0415

            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(data)  # type: ignore[union-attr]

        def end_input(self) -> None:
            self._process.stdin.close()  # type: ignore[union-attr]

        def read(self) -> tuple[bytes, bytes, int | None]:
            """What it says next on its output and error, and its status once it has ended."""
            place, said = self._said.get()
            if not said:
                self._open -= 1
            status = None if self._open else self._process.wait()
            return (said, b"", status) if place == 0 else (b"", said, status)

    return Command


if __name__ == "__main__":
    main()
