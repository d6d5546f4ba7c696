"""Forks the ranks of a training script on libraries that do nothing: the floor of ranks.py.

    LD_PRELOAD=... python benchmarks/floor_ranks.py RANKS GPUS_PER_NODE SCRIPT [its arguments]

As `phantora run` does, everything is imported once and the ranks are forked from that process.
They meet in a store of torch.distributed and nowhere else. Attention by cuDNN is off, which such
libraries could not pretend to have.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import NoReturn

import torch

from phantora_py.launch import imports, zygote


def run_rank(script: str, arguments: list[str]) -> NoReturn:
    """The script, and an end that does not take Python down, as under `phantora run`."""
    status = zygote.run_program("script", script, arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Start all ranks, wait for them, and end with status 1 if one of them fails."""
    ranks, gpus_per_node, script = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    wanted = imports.wanted("script", script, for_several=True)
    if unfit := imports.preload(wanted, (), ()):
        raise SystemExit(f"cannot fork: {unfit}")
    torch.backends.cuda.enable_cudnn_sdp(False)
    zygote.freeze()
    os.environ |= {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(min(ranks, gpus_per_node)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    for rank in range(ranks):
        if os.fork() == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank % gpus_per_node)}
            run_rank(script, sys.argv[4:])
    ends = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(ranks)]
    os._exit(int(any(ends)))


if __name__ == "__main__":
    main()
