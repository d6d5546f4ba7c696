"""`python -m sim_server`: one server for one run. See `sim_server.service`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim_server.service import serve


def main() -> int:
    """Serve one run and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m sim_server", description=__doc__)
    parser.add_argument("--listen", required=True, help="unix:PATH or HOST:PORT")
    parser.add_argument(
        "--token-file", required=True, type=Path, help="file with the token agents must show"
    )
    parser.add_argument(
        "--agents", type=int, default=1, help="how many host agents join (default 1)"
    )
    options = parser.parse_args()
    token = options.token_file.read_text(encoding="ascii").strip()
    return serve(options.listen, token, options.agents)


if __name__ == "__main__":
    sys.exit(main())
