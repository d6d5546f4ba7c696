"""What an engine of containers has to do for phantora.

An engine only starts the first process of a container, `inside`; rank, output and end are that
one's business. So an engine is anything that executes a command in namespaces.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from phantora_py.isolation.nodes import Node

DEVICES = "/dev"


class EngineFailed(Exception):  # noqa: N818 - says what was found
    """Containers cannot be started; the message says why."""


class Engine(Protocol):
    """Starts containers, each with the files and the host name of its node."""

    def announce(self, node: Node) -> None:
        """A node whose containers will follow."""

    def start(self, node: Node, command: Sequence[str]) -> None:
        """Starts a container with this command. Raises: EngineFailed."""

    def check(self) -> None:
        """Raises: EngineFailed if a container that was started is not there any more."""

    def close(self) -> None:
        """Ends and removes all containers."""


def files_of(node: Node) -> Iterator[tuple[str, str]]:
    """What a container sees elsewhere than it is: source and target, in the order of mounting."""
    if node.shared_memory:
        run_dir = Path(node.shared_memory).parent.parent
        yield node.shared_memory, "/dev/shm"
        yield str(run_dir), f"/dev/shm/{run_dir.name}"
    yield node.hosts, "/etc/hosts"
    if node.resolver and os.path.exists("/etc/resolv.conf"):
        yield node.resolver, os.path.realpath("/etc/resolv.conf")
