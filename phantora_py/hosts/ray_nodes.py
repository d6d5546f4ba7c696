"""Commands on the nodes of a Ray cluster, each run by an actor of its own.

    python -m phantora_py.hosts.ray_nodes list
    python -m phantora_py.hosts.ray_nodes run NODE WORD...

`list` prints the names of the nodes, ours first, as a line of JSON. `run` has a command's standard
input, output, error and status as if it ran here. Ray stays out of the process of the run: it
starts threads and takes signals for itself.

Source: Ray's reference of ray.init, ray.nodes, actors and NodeAffinitySchedulingStrategy, of
version 2.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

REFUSED = 255
"""Exit code of `run` and `list` where Ray has started nothing; the error says why."""


def main() -> NoReturn:
    """As above."""
    # Ray prints where it likes to; what it prints is no output of ours.
    try:
        import ray  # noqa: PLC0415 - an extra
        import ray.exceptions  # noqa: PLC0415
    except ImportError:
        _refuse("--engine ray needs Ray. To install it: pip install 'phantora[ray]'")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            ray.init("auto", log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        _refuse(f"no cluster of Ray is found ({error}). Start one: ray start --head")
    nodes = _names(ray)
    if sys.argv[1] == "list":
        own = ray.get_runtime_context().get_node_id()
        print(json.dumps(sorted(nodes, key=lambda name: (nodes[name] != own, name))))
        sys.exit(0)
    if sys.argv[2] not in nodes:
        _refuse(f"node {sys.argv[2]} has left the cluster")
    try:
        sys.exit(_run(ray, nodes[sys.argv[2]], sys.argv[3:]))
    except ray.exceptions.RayError as error:
        _refuse(str(error).strip())


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


def _run(ray: Any, node: str, words: Sequence[str]) -> int:
    """Exit code of a command on a node. Raises: RayError if the node is gone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    # One call waits for output while others pass on input.
    options = {
        "num_cpus": 1,
        "max_concurrency": 3,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
    }
    command = ray.remote(_command()).options(**options).remote(list(words))
    ray.get(command.__ray_ready__.remote())

    def pass_on() -> None:
        for line in sys.stdin.buffer:
            command.write.remote(line)
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

        def write(self, line: bytes) -> None:
            """To its standard input, if it still reads."""
            import contextlib  # noqa: PLC0415

            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line)  # type: ignore[union-attr]

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
