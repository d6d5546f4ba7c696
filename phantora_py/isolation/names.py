"""Answers questions for names beyond the simulated nodes, whose own are in /etc/hosts.

Hosts beyond the simulated nodes cannot be reached. With a quick answer a program fails at once, and
the user is told what to do about it. Source: RFC 1035, section 4.1.
"""

import socket
import struct
import sys

from phantora_py.isolation.nodes import GATEWAY

_PORT = 53
_PACKET_BYTES = 4096
_HEADER_BYTES = 12
# A response to a standard query, recursion desired and available: there is no such name.
_NO_SUCH_NAME = 0x8183


class Names:
    """A name server at the nodes' gateway; made in the namespace that has it."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((GATEWAY, _PORT))

    def answer(self) -> None:
        """Answers one question; tells the user of a name outside, the first time."""
        packet, asker = self.socket.recvfrom(_PACKET_BYTES)
        name, end = _question(packet)
        if not name:
            return
        header = struct.pack(
            "!HHHHHH", *struct.unpack_from("!H", packet), _NO_SUCH_NAME, 1, 0, 0, 0
        )
        self.socket.sendto(header + packet[_HEADER_BYTES:end], asker)
        # Names of machines nearby have no dot; programs look for those of addresses on their own.
        if "." in name and not name.endswith(".arpa") and name not in self._told:
            self._told.add(name)
            print(
                f"phantora: note: a rank asked for {name}, which is not on the simulated network; "
                "with --network host ranks use this machine's.",
                file=sys.stderr,
            )


def resolver_text() -> str:
    """The /etc/resolv.conf that leads to it."""
    return f"nameserver {GATEWAY}\noptions attempts:1 timeout:1\n"


def _question(packet: bytes) -> tuple[str, int]:
    """The name in a packet's first question, and where the question ends; no name if it is none."""
    labels = []
    position = _HEADER_BYTES
    while position < len(packet) and packet[position]:
        length = packet[position]
        labels.append(packet[position + 1 : position + 1 + length].decode("ascii", "replace"))
        position += 1 + length
    kind_and_class = 4
    end = position + 1 + kind_and_class
    return (".".join(labels), end) if end <= len(packet) else ("", 0)
