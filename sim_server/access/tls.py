"""Mutual TLS: server and agents show each other certificates of one authority."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from sim_server.errors import UsageError


@dataclass(frozen=True)
class Tls:
    """Files in PEM format, of either side."""

    cert: Path
    """Its own certificate, with the chain up to the authority."""
    key: Path
    """The private key of `cert`, without a password."""
    ca: Path
    """The authority whose certificates the other side may show."""

    @staticmethod
    def of(cert: Path | None, key: Path | None, ca: Path | None) -> Tls | None:
        """Of options of the command line; None if none was given. Raises: UsageError."""
        if cert is None and key is None and ca is None:
            return None
        if cert is None or key is None or ca is None:
            options = {"--tls-cert": cert, "--tls-key": key, "--tls-ca": ca}
            missing = " and ".join(name for name, path in options.items() if path is None)
            raise UsageError(f"TLS needs --tls-cert, --tls-key and --tls-ca; add {missing}.")
        tls = Tls(cert, key, ca)
        tls.check()
        return tls

    def check(self) -> None:
        """Raises: UsageError for files that cannot be used; gRPC would not say why."""
        for path in (self.cert, self.key, self.ca):
            _read(path)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            # Without a password ssl would ask for one at the terminal.
            context.load_cert_chain(self.cert, self.key, password=lambda: b"")
        except (ssl.SSLError, ValueError) as error:
            raise UsageError(
                f"{self.cert} and {self.key} are not a certificate and its private key in PEM "
                f"format, without a password ({_reason(error)})."
            ) from error
        try:
            context.load_verify_locations(self.ca)
        except (ssl.SSLError, ValueError) as error:
            raise UsageError(
                f"{self.ca} has no certificate of an authority in PEM format ({_reason(error)})."
            ) from error

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a server: who shows no certificate of the authority is not listened to."""
        pair = (_read(self.key), _read(self.cert))
        return grpc.ssl_server_credentials([pair], _read(self.ca), require_client_auth=True)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For an agent."""
        return grpc.ssl_channel_credentials(_read(self.ca), _read(self.key), _read(self.cert))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"The TLS file {path} cannot be read: {error.strerror}.") from error


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).lower().replace("_", " ")
