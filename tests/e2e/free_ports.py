"""Ports of this machine for programs and servers of tests."""

import contextlib
import random
import socket


def free_port() -> int:
    """One that nobody listens on just now, nor takes by chance before the program does: below those
    that connections are given (32768 on, by Linux's default).
    """
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port := random.randrange(10_000, 32_768)))
            return port
