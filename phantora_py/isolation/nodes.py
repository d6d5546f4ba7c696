"""The namespaces that the ranks of one simulated node share, and the network that joins the nodes.

A node has a network, a host name and IPC of its own; every node has a cable to one router, which is
a network namespace too. Only descriptors of the process that makes all this hold it, so that it is
gone when that process is, however it ends.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from phantora_py.isolation import netlink, system
from phantora_py.isolation.wire import open_wire

# In the order in which a process can enter them.
SHARED = ("net", "ipc", "uts")

# Two neighbours (the router and the node, for each other) are known to the kernel at a cable, and
# not more than 1024 in all; a few are of the machine. Source: gc_thresh3, arp(7).
MAX_NODES = 500
GATEWAY = "10.88.0.1"
_NODES_PER_BLOCK = 250
_INTERFACE = "eth0"


@dataclass(frozen=True)
class Node:
    """What the ranks of one simulated node see in place of the machine's own.

    `hosts` and `resolver` replace /etc/hosts and /etc/resolv.conf, `shared_memory` replaces
    /dev/shm; those that are empty are left as they are.
    """

    name: str
    address: str
    hosts: str
    shared_memory: str
    resolver: str = ""


def node_name(node: int) -> str:
    """The host name of a simulated node."""
    return f"node{node}"


def node_address(node: int, own_network: bool) -> str:
    """A node's address: in the nodes' own network, or on the machine's loopback interface."""
    block, number = divmod(node, _NODES_PER_BLOCK)
    return f"{'10' if own_network else '127'}.88.{block + 1}.{number + 1}"


class Nodes:
    """Makes nodes, which processes then join.

    The maker moves into a network of its own, the router, from which it reaches the nodes'.
    """

    def __init__(self, namespaces: frozenset[str]) -> None:
        """`namespaces`: those that ranks are to have; only the shared ones matter here. Raises:
        OSError.
        """
        self._kinds = [kind for kind in SHARED if kind in namespaces]
        self._names = "mnt" in namespaces
        self._of_node: dict[str, dict[str, int]] = {}
        # The machine's own could not be entered again without privilege.
        self._home = self._make()
        if "net" in self._home:
            netlink.bring_up("lo")
            netlink.add_address("lo", GATEWAY)

    def add(self, node: Node) -> None:
        """Makes a node's namespaces unless they are there. Raises: OSError."""
        if node.name in self._of_node:
            return
        self._of_node[node.name] = self._make()
        try:
            # A host name that does not resolve would break programs, so it needs the hosts file.
            if "uts" in self._home and self._names:
                socket.sethostname(node.name)
            if "net" in self._home:
                self._connect(node)
        finally:
            _enter(self._home)

    def open_wire(self, addresses: Sequence[str]) -> socket.socket:
        """The socket by which packets for these addresses, of nodes on other hosts, leave and
        those from there come in. Raises: OSError.
        """
        return open_wire(self._home["net"], addresses)

    def join(self, name: str) -> None:
        """Moves the calling process into a node. Raises: OSError."""
        _enter(self._of_node[name])

    @contextmanager
    def visit(self, name: str) -> Iterator[None]:
        """The calling process, the maker, is in a node meanwhile. Raises: OSError."""
        self.join(name)
        try:
            yield
        finally:
            _enter(self._home)

    def close(self) -> None:
        """Lets go of all nodes, in a process that is not their maker."""
        for descriptors in (self._home, *self._of_node.values()):
            for descriptor in descriptors.values():
                os.close(descriptor)

    def _make(self) -> dict[str, int]:
        if self._kinds:
            system.unshare(frozenset(self._kinds))
        return {kind: system.open_namespace("self", kind) for kind in self._kinds}

    def _connect(self, node: Node) -> None:
        """Called within the node, whose end of the cable looks like a network card."""
        netlink.bring_up("lo")
        netlink.add_cable(_INTERFACE, node.name, self._home["net"])
        netlink.add_address(_INTERFACE, node.address)
        netlink.bring_up(_INTERFACE)
        # Also for what is outside, where nothing is: programs find their own address by connecting
        # to it.
        netlink.add_default_route(_INTERFACE, GATEWAY)
        system.join(self._home["net"])
        netlink.bring_up(node.name, forwards=True)
        netlink.add_route(node.name, node.address)


def _enter(descriptors: dict[str, int]) -> None:
    for descriptor in descriptors.values():
        system.join(descriptor)
