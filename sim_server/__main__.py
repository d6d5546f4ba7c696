"""`python -m sim_server`: one server for one run, started by `phantora run`. See
`sim_server.service`; `phantora serve` is the one for users.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from sim_server.access import Endpoint, Tls
from sim_server.access.offer import Offer
from sim_server.access.tokens import take_token
from sim_server.service import serve

# New objects between two collections of garbage, and how many of the young come before one of the
# older and of all. What a simulation leaves is freed without: with Python's own numbers more than
# half of the time of 16,384 ranks went into looks at millions of objects that stay (measured).
_COLLECTIONS = (100_000, 20, 100)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve one run and return its exit code. `arguments`: None for those of this process."""
    parser = argparse.ArgumentParser(prog="python -m sim_server", description=__doc__)
    parser.add_argument("--listen", required=True, help="unix:PATH or HOST:PORT")
    parser.add_argument(
        "--token-file", required=True, type=Path, help="file with the token agents must show"
    )
    parser.add_argument(
        "--offer", required=True, type=Path, help="file with what is simulated, and with what"
    )
    parser.add_argument("--agents", type=int, default=1, help="hosts that will join")
    for name in ("--tls-cert", "--tls-key", "--tls-ca"):
        parser.add_argument(name, type=Path, help="as of `phantora serve`")
    parser.add_argument("--insecure", action="store_true", help="as of `phantora serve`")
    options = parser.parse_args(arguments)
    token = take_token(options.token_file, {})
    assert token is not None
    offer = Offer.from_json(options.offer.read_text(encoding="utf-8"))
    tls = Tls.of(options.tls_cert, options.tls_key, options.tls_ca)
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    endpoint = Endpoint.of(options.listen, token, tls, options.insecure)
    return serve(endpoint, options.agents, offer)


if __name__ == "__main__":
    sys.exit(main())
