"""Addresses of simulation servers: unix:PATH or HOST:PORT, and who can reach them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from sim_server.errors import UsageError

# Of sockaddr_un, with the zero at its end. Source: unix(7).
_MOST_PATH_BYTES = 107


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    text: str
    """As gRPC takes it."""
    is_local: bool
    """Only processes of this machine can reach it."""
    is_socket_file: bool = False
    """It is a file: whoever may write to it can reach it."""

    @staticmethod
    def parse(text: str) -> Address:
        """Reads unix:PATH, HOST:PORT or [IPv6]:PORT. Raises: UsageError for anything else."""
        scheme, _, path = text.partition(":")
        if scheme == "unix":
            return _socket_file(text, path)
        host, separator, port = text.rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        if not separator or not host or (":" in host and not is_bracketed) or "/" in host:
            raise UsageError(
                f"{text!r} is not an address; write HOST:PORT, [IPv6]:PORT or unix:PATH."
            )
        if not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise UsageError(f"{text!r} has no port from 1 to 65535; write HOST:PORT.")
        return Address(text, _is_loopback(host.strip("[]")))


def _socket_file(text: str, path: str) -> Address:
    if not path or "\0" in path:
        raise UsageError(f"{text!r} names no file; write unix:PATH.")
    if len(path.encode()) > _MOST_PATH_BYTES:
        raise UsageError(
            f"The path of a socket has {_MOST_PATH_BYTES} bytes at most, not "
            f"{len(path.encode())}: {path}. Choose a shorter one."
        )
    return Address(text, is_local=True, is_socket_file=True)


def _is_loopback(host: str) -> bool:
    """Names other than localhost are not looked up: what they mean may change."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
