"""The options of a run on several hosts."""

import argparse
from pathlib import Path

from phantora_py.hosts.engines import ENGINES


def add_hosts_arguments(group: argparse._ArgumentGroup) -> None:
    """Declares them."""
    group.add_argument(
        "--hosts",
        metavar="HOST,...|N",
        help="run the ranks on these hosts; the first is this one, which keeps the data file. With "
        "--engine slurm or ray: on N hosts of the allocation or cluster (docs/hosts.md)",
    )
    group.add_argument("--hosts-file", type=Path, metavar="FILE", help="the hosts, one on a line")
    group.add_argument(
        "--engine",
        choices=ENGINES,
        default="ssh",
        help="what starts the agents of the other hosts; default: ssh",
    )
    group.add_argument(
        "--listen",
        metavar="ADDRESS[:PORT]",
        help="of this host, by which the others reach it; default: that by which it reaches them",
    )
