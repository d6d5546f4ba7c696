"""scontrol of a simulated job, which knows `scontrol show hostnames [LIST]`.

    python -I -S scontrol.py show hostnames

The standard library only. Without a list it is that of SLURM_JOB_NODELIST.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator


def expanded(nodes: str) -> Iterator[str]:
    """The names of `node[0-3,7],other`."""
    for prefix, ranges in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?", nodes):
        if not ranges:
            yield prefix
        for part in filter(None, ranges.split(",")):
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield f"{prefix}{number:0{len(first)}}"


def main(arguments: list[str]) -> int:
    """Prints a name in each line; 1 for anything else."""
    if arguments[:2] not in (["show", "hostnames"], ["show", "hostname"]):
        print("scontrol: of a simulated job only `scontrol show hostnames` works", file=sys.stderr)
        return 1
    nodes = arguments[2] if len(arguments) > 2 else os.environ.get("SLURM_JOB_NODELIST", "")
    if not nodes:
        print("scontrol: SLURM_JOB_NODELIST is not set", file=sys.stderr)
        return 1
    print("\n".join(expanded(nodes)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
