"""The options that say how a server and its agents know each other; on both sides the same."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from sim_server.access import Tls
from sim_server.errors import UsageError


def add_access_arguments(group: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declares them; `chosen_tls` reads them."""
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token by which the server recognizes agents; the server makes the file "
        "if there is none; default: the variable PHANTORA_TOKEN",
    )
    group.add_argument("--token", action=_NoToken, help=argparse.SUPPRESS)
    group.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="between machines: this side's TLS certificate, PEM",
    )
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="the private key of --tls-cert")
    group.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="the certificate authority that signed the other side's certificate",
    )
    group.add_argument(
        "--insecure",
        action="store_true",
        help="allow connections between machines without TLS: for networks where nobody else can "
        "listen",
    )


def chosen_tls(options: argparse.Namespace) -> Tls | None:
    """Raises: UsageError if the files cannot be used."""
    return Tls.of(options.tls_cert, options.tls_key, options.tls_ca)


class _NoToken(argparse.Action):
    """Says what to use instead."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> NoReturn:
        raise UsageError(
            "--token is not taken: every user of a machine can read its command lines. Give the "
            "token in a file with --token-file, or in the variable PHANTORA_TOKEN."
        )
