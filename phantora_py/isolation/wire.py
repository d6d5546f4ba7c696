"""Where packets for simulated nodes on other hosts leave the router, and those from there come in.

The router has a cable whose both ends are its own. What is routed into the near end is read at the
far end, by a packet socket, and what is written there comes out at the near end, to be routed on.
The packets go as the kernel has them: large ones are not cut, and checksums are computed by who
needs them; a header that the kernel puts before each says so. It is the same on the other host.

Source: packet(7), linux/if_packet.h, linux/virtio_net.h.
"""

import socket
from collections.abc import Sequence

from phantora_py.isolation import netlink

_NEAR, _FAR = "hosts", "hosts-far"
# Locally administered, and the same on every host: a frame is addressed to the near end it left by.
_HARDWARE_ADDRESS = b"\x02PH\0\0\1"
_ETH_P_IP = 0x0800
_SOL_PACKET = 263
_PACKET_STATISTICS, _PACKET_VNET_HDR = 6, 15
_STATISTICS_BYTES = 8
_SO_RCVBUFFORCE = 33
# More than the sockets of a run's programs have under way (assumed); the kernel may grant less.
_BUFFER_BYTES = 64 << 20
_VNET_HEADER_BYTES = 10
_FRAME_HEADER_BYTES = 14
# Within an IPv4 header, and in that of TCP which follows it. Source: RFC 791, RFC 9293.
_PROTOCOL, _DESTINATION = 9, slice(16, 20)
_TCP_FLAGS, _TCP_SYN, _TCP_RST, _TCP_SYN_ACK = 13, 0x02, 0x04, 0x12
MAX_PACKET_BYTES = _VNET_HEADER_BYTES + _FRAME_HEADER_BYTES + (1 << 16)


def open_wire(home: int, addresses: Sequence[str]) -> socket.socket:
    """Called in the router, whose network namespace `home` is. `addresses`: of the nodes on other
    hosts. Raises: OSError.
    """
    netlink.add_cable(_NEAR, _FAR, home, _HARDWARE_ADDRESS)
    netlink.bring_up(_FAR, asks=False)
    netlink.bring_up(_NEAR, forwards=True, asks=False)
    for address in addresses:
        netlink.add_route(_NEAR, address)
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    try:
        wire.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    wire.bind((_FAR, _ETH_P_IP))
    return wire


def destination(packet: bytes) -> str:
    """The IPv4 address that a packet of the wire is for."""
    start = _VNET_HEADER_BYTES + _FRAME_HEADER_BYTES
    return socket.inet_ntoa(packet[start:][_DESTINATION])


def is_attempt(packet: bytes) -> bool:
    """Whether it is no more than an attempt to connect, or its refusal."""
    header = packet[_VNET_HEADER_BYTES + _FRAME_HEADER_BYTES :]
    flags_at = (header[0] & 0xF) * 4 + _TCP_FLAGS
    if header[_PROTOCOL] != socket.IPPROTO_TCP or flags_at >= len(header):
        return False
    return bool(header[flags_at] & _TCP_RST) or header[flags_at] & _TCP_SYN_ACK == _TCP_SYN


def lost(wire: socket.socket) -> bool:
    """Whether the kernel has dropped packets since the last call, for want of room."""
    statistics = wire.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS_BYTES)
    return int.from_bytes(statistics[4:], "little") > 0
