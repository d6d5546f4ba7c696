"""The options of a run on several hosts."""

import argparse
from pathlib import Path

from phantora_py.hosts.engines import ENGINES


def add_hosts_arguments(group: argparse._ArgumentGroup) -> None:
    """Declares them."""
    group.add_argument(
        "--hosts",
        metavar="HOST,...|N",
        help="run the ranks on these hosts; the first is this machine, which writes the data file. "
        "With --engine slurm or ray: on N hosts of Slurm, of the allocation if there is one, or of "
        "the Ray cluster (docs/hosts.md)",
    )
    group.add_argument("--hosts-file", type=Path, metavar="FILE", help="the hosts, one per line")
    group.add_argument(
        "--engine",
        choices=ENGINES,
        default="ssh",
        help="what starts phantora's agents on the other hosts; default: ssh",
    )
    group.add_argument(
        "--listen",
        metavar="ADDRESS[:PORT]",
        help="the address by which the other hosts reach this one; default: the one by which it "
        "reaches them",
    )
