"""Runs one program in oracle and system, and prints what differs.

    python tests/oracle/replay.py SEED 'PROGRAM' [--all]

SEED is that of the delivery and PROGRAM the text, both as a failing test prints them. `--all`
prints the whole history of the oracle first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("engine", "sim_server")]

from comparison import compare
from host_programs import Program
from oracle import Oracle
from system import Delivery


def main() -> None:
    """Exit code 1 when anything differs."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("seed", type=int)
    options.add_argument("program", type=Program.parse)
    options.add_argument("--all", action="store_true", help="print the oracle's history")
    chosen = options.parse_args()
    expected = Oracle(chosen.program).run()
    if chosen.all:
        for span in sorted(expected.spans):
            print(span)
        for operation in expected.operations:
            print(operation)
        for rank, answers in enumerate(expected.answers):
            print(f"rank {rank}:", *answers, sep="\n  ")
    deliveries = [Delivery()]
    for choice in range(8):
        deliveries.append(Delivery(chosen.seed, *(bool(choice >> bit & 1) for bit in range(3))))
    found = compare(chosen.program, deliveries, expected)
    print(*found or ["oracle and system agree"], sep="\n")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
