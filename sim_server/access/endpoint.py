"""The end of a connection, of a server or of an agent: address, token, and TLS or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc

from sim_server.access.addresses import Address
from sim_server.access.tls import Tls
from sim_server.errors import UsageError

TOKEN_KEY = "phantora-token"
# What one message from an agent may hold. An agent cuts what it has read into pieces.
MAX_BATCH_BYTES = 16 << 20
MAX_REQUEST_BYTES = 2 * MAX_BATCH_BYTES
# Members of the data file come whole (assumed: more than the largest has).
MAX_RESPONSE_BYTES = 1 << 30
# A connection that carries nothing is looked after that often, and given up if nobody answers for
# as long: the other machine may have gone without a word. The kernel knows that of its own.
_KEEPALIVE_MS = 60_000

Options = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Endpoint:
    """Where and how a server is met. What a connection shows nobody is `token`."""

    address: Address
    token: str = field(repr=False)
    tls: Tls | None = None

    @staticmethod
    def of(text: str, token: str, tls: Tls | None = None, insecure: bool = False) -> Endpoint:
        """Of the options of a command line.

        Raises: UsageError for a bad address, and for one beyond this machine without TLS, unless
        it is `insecure` by intent.
        """
        address = Address.parse(text)
        if tls is not None and insecure:
            raise UsageError("--insecure is for connections without TLS; leave it or --tls-* out.")
        if not (address.is_local or tls is not None or insecure):
            raise UsageError(
                f"{text} is beyond this machine, where others could read the token and use it: "
                "give --tls-cert, --tls-key and --tls-ca, or say --insecure where nobody else "
                "can listen."
            )
        return Endpoint(address, token, tls)

    def bind(self, server: grpc.Server) -> None:
        """Raises: UsageError if the address cannot be used."""
        text = self.address.text
        try:
            if self.tls is None:
                port = server.add_insecure_port(text)
            else:
                port = server.add_secure_port(text, self.tls.server_credentials())
        except RuntimeError as error:
            raise UsageError(_cannot_listen(text)) from error
        if port == 0:
            raise UsageError(_cannot_listen(text))

    def connect(self) -> grpc.Channel:
        """A channel of an agent to the server."""
        text, options = self.address.text, [*self.keepalive(), *_CHANNEL_OPTIONS]
        if self.tls is None:
            return grpc.insecure_channel(text, options=options)
        return grpc.secure_channel(text, self.tls.channel_credentials(), options=options)

    def keepalive(self) -> Options:
        """Options of gRPC that find out if the other machine has gone."""
        if self.address.is_socket_file:
            return []
        return [
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
            # As often as that the other side may ask.
            ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
            ("grpc.http2.max_pings_without_data", 0),
        ]


_CHANNEL_OPTIONS: Options = (
    ("grpc.max_send_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    # A proxy for web pages has no business with the token.
    ("grpc.enable_http_proxy", 0),
    # A server that is just starting is tried again soon.
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
)


def _cannot_listen(text: str) -> str:
    return (
        f"Cannot listen on {text}: the address is in use, is not this machine's, or may not be "
        "used. Choose another with --listen."
    )
