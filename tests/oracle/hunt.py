"""Hunts for programs on which oracle and system differ.

    python tests/oracle/hunt.py [--examples 5000] [--seed N]

Needs the package and its test requirements installed. Ends with exit code 1 at the first program
that differs, made as small as possible, with the line that replays it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("engine", "sim_server")]

from comparison import check
from host_programs import Program
from hypothesis import HealthCheck, given, seed, settings
from random_programs import DELIVERIES, programs
from system import Delivery


def main() -> None:
    """Look for a difference until one is found or all examples agree."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--examples", type=int, default=5000)
    options.add_argument("--seed", type=int, default=random.randrange(2**32))
    options.add_argument("--steps", type=int, default=20, help="of a program, at most")
    chosen = options.parse_args()
    print(f"{chosen.examples} programs, seed {chosen.seed}")
    started_s = time.monotonic()

    @seed(chosen.seed)
    @settings(
        max_examples=chosen.examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(programs(chosen.steps), DELIVERIES)
    def agree(program: Program, delivery: Delivery) -> None:
        check(program, delivery)

    try:
        agree()
    except AssertionError as error:
        print(error)
        raise SystemExit(1) from None
    print(f"all agree; {time.monotonic() - started_s:.0f} s")


if __name__ == "__main__":
    main()
