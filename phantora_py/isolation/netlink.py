"""The few requests to the kernel's network configuration that joining simulated nodes takes.

A request concerns the network namespace that the calling process is in. Source: netlink(7),
rtnetlink(7), linux/if_link.h, linux/rtnetlink.h.
"""

import os
import socket
import struct

_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 20, 24
_REQUEST, _ACK, _CREATE, _EXCLUSIVE = 0x1, 0x4, 0x400, 0x200
_NLMSG_ERROR = 2

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_AF_SPEC, _IFLA_NET_NS_FD = 1, 3, 18, 26, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_VETH_INFO_PEER = 1
_IFLA_INET_CONF = 1
_IPV4_DEVCONF_FORWARDING = 1
_IFF_UP = 1
_IFF_NOARP = 0x80

_IFA_ADDRESS, _IFA_LOCAL = 1, 2

_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_RT_TABLE_MAIN, _RTPROT_STATIC, _RTN_UNICAST = 254, 4, 1
_RT_SCOPE_UNIVERSE, _RT_SCOPE_LINK = 0, 253
_RTNH_F_ONLINK = 4
_ADDRESS_BITS = 32

_ANSWER_BYTES = 1 << 16


def add_cable(name: str, peer: str, peer_namespace: int, hardware_address: bytes = b"") -> None:
    """Makes a pair of interfaces: one here, its peer in the namespace behind a descriptor.

    `hardware_address`: that of the one here; if it is not given the kernel makes one up.
    Raises: OSError, as all of these.
    """
    own = _attribute(_IFLA_ADDRESS, hardware_address) if hardware_address else b""
    other = _link() + _name(peer) + _attribute(_IFLA_NET_NS_FD, struct.pack("I", peer_namespace))
    data = _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, other))
    info = _attribute(_IFLA_LINKINFO, _attribute(_IFLA_INFO_KIND, b"veth") + data)
    body = _link() + _name(name) + own + info
    _request(_RTM_NEWLINK, _CREATE | _EXCLUSIVE, body, f"a cable {name}")


def bring_up(name: str, forwards: bool = False, asks: bool = True) -> None:
    """Sets an interface going.

    `forwards`: packets that come in there for somebody else are routed, or refused with a reason.
    `asks`: for the hardware address of who is to get a packet; else that is the interface's own.
    """
    link = _link(socket.if_nametoindex(name), _IFF_UP if asks else _IFF_UP | _IFF_NOARP)
    if forwards:
        setting = _attribute(_IPV4_DEVCONF_FORWARDING, struct.pack("I", 1))
        family = _attribute(socket.AF_INET, _attribute(_IFLA_INET_CONF, setting))
        link += _attribute(_IFLA_AF_SPEC, family)
    _request(_RTM_NEWLINK, 0, link, f"bringing up {name}")


def add_address(name: str, address: str) -> None:
    """Gives an interface an IPv4 address, with no others in its neighbourhood."""
    packed = socket.inet_aton(address)
    index = socket.if_nametoindex(name)
    header = struct.pack("BBBBI", socket.AF_INET, _ADDRESS_BITS, 0, _RT_SCOPE_UNIVERSE, index)
    attributes = _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
    _request(_RTM_NEWADDR, _CREATE | _EXCLUSIVE, header + attributes, f"the address {address}")


def add_route(name: str, address: str) -> None:
    """Says at which interface an address is."""
    kind = (_RT_TABLE_MAIN, _RTPROT_STATIC, _RT_SCOPE_LINK, _RTN_UNICAST, 0)
    header = struct.pack("BBBBBBBBI", socket.AF_INET, _ADDRESS_BITS, 0, 0, *kind)
    destination = _attribute(_RTA_DST, socket.inet_aton(address))
    route = header + destination + _interface(name)
    _request(_RTM_NEWROUTE, _CREATE | _EXCLUSIVE, route, f"a route to {address}")


def add_default_route(name: str, gateway: str) -> None:
    """Sends all else to `gateway`, which is at this interface."""
    kind = (_RT_TABLE_MAIN, _RTPROT_STATIC, _RT_SCOPE_UNIVERSE, _RTN_UNICAST, _RTNH_F_ONLINK)
    header = struct.pack("BBBBBBBBI", socket.AF_INET, 0, 0, 0, *kind)
    route = header + _attribute(_RTA_GATEWAY, socket.inet_aton(gateway)) + _interface(name)
    _request(_RTM_NEWROUTE, _CREATE | _EXCLUSIVE, route, f"a route by {gateway}")


def _interface(name: str) -> bytes:
    return _attribute(_RTA_OIF, struct.pack("I", socket.if_nametoindex(name)))


def _link(index: int = 0, flags: int = 0) -> bytes:
    """struct ifinfomsg; of the flags only those set here are changed."""
    return struct.pack("BBHiII", socket.AF_UNSPEC, 0, 0, index, flags, flags)


def _name(name: str) -> bytes:
    return _attribute(_IFLA_IFNAME, name.encode() + b"\0")


def _attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("HH", length, kind) + payload + bytes(-length % 4)


def _request(kind: int, flags: int, body: bytes, subject: str) -> None:
    header = struct.pack("IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as connection:
        connection.send(header + body)
        answer = connection.recv(_ANSWER_BYTES)
    answer_kind, code = struct.unpack_from("4xH10xi", answer)
    if answer_kind != _NLMSG_ERROR or code != 0:
        raise OSError(-code, f"{subject}: {os.strerror(-code)}")
