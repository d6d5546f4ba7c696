"""Rounds per second of one run on several hosts, by number of hosts and latency of their links.

    python benchmarks/hosts.py [--ranks 4] [--cases 1:0 2:1 4:1] [--kinds gpu] [--rounds 1000]
        [--json]

A case is HOSTS:MS: on so many hosts, whose links take so long each way. The hosts are this machine,
with an agent of its own for each, so the figures tell what several hosts cost, not what more
processors give. Ranks are one to a node. A round of `gpu` is an all-reduce and a synchronisation,
one of `store` has each rank set a key of a TCPStore and wait for that of the next rank. Real time
and core time are the difference of a run with many rounds and one with few; core time is that of
all agents, ranks and the server, per rank and round. On a machine that does other work, too few
rounds tell nothing: starts differ by a second.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import Results, parser

from phantora_py.data import RunData

LINK = Path(__file__).parent.parent / "tests" / "e2e" / "far_host.py"
CASES = ["1:0", "2:0", "2:1", "2:5", "4:1"]
KINDS = ("gpu", "store")
COLUMNS = ("round", "hosts", "link ms", "rounds/s", "ms a round", "core ms")
FEW = 20
PROGRAM = """\
import sys
import torch
import torch.distributed as dist

kind, rounds = sys.argv[1], int(sys.argv[2])
torch.cuda.set_device(0)
dist.init_process_group("nccl")
rank, ranks = dist.get_rank(), dist.get_world_size()
store = dist.distributed_c10d._get_default_store()
ones = torch.ones(1 << 20, device="cuda")
for turn in range(rounds):
    if kind == "gpu":
        dist.all_reduce(ones)
        torch.cuda.synchronize()
    else:
        store.set(f"{turn}/{rank}", "there")
        store.wait([f"{turn}/{(rank + 1) % ranks}"])
dist.destroy_process_group()
"""


def took(directory: Path, ranks: int, case: str, kind: str, rounds: int) -> tuple[float, float]:
    """Real time and core time of a run, in seconds."""
    hosts, _, latency_ms = case.partition(":")
    path = directory / "run.phr"
    words = [sys.executable, "-P", "-m", "phantora_py", "run", "--quiet", "-o", str(path)]
    words += ["--nodes", str(ranks), "--gpus-per-node", "1"]
    if int(hosts) > 1:
        names = ["localhost", *(f"far{number}" for number in range(1, int(hosts)))]
        words += ["--hosts", ",".join(names), "--listen", "127.0.0.1"]
    words += ["--", sys.executable, "program.py", kind, str(rounds)]
    stand_in = {
        "PHANTORA_SSH": shlex.join([sys.executable, "-P", str(LINK)]),
        "PHANTORA_FAR_HOST_MS": latency_ms,
    }
    subprocess.run(words, cwd=directory, env=os.environ | stand_in, check=True)
    wall = RunData(path).run["wall"]
    path.unlink()
    return wall["total_s"] - wall["startup_s"], wall["core_seconds"]


def main() -> None:
    """Measures the cases and prints a table."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, default=4)
    options.add_argument("--cases", nargs="+", default=CASES, metavar="HOSTS:MS")
    options.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    options.add_argument("--rounds", type=int, default=1000)
    chosen = options.parse_args()
    results = Results("One run on several hosts", COLUMNS)
    with tempfile.TemporaryDirectory(prefix="phantora-hosts-") as folder:
        directory = Path(folder)
        (directory / "program.py").write_text(PROGRAM, encoding="ascii")
        for kind in chosen.kinds:
            for case in chosen.cases:
                few_s, few_core_s = took(directory, chosen.ranks, case, kind, FEW)
                many_s, many_core_s = took(directory, chosen.ranks, case, kind, chosen.rounds)
                rounds = chosen.rounds - FEW
                each_s, core_s = (many_s - few_s) / rounds, (many_core_s - few_core_s) / rounds
                hosts, _, latency_ms = case.partition(":")
                results.add(
                    *(kind, hosts, latency_ms, 1 / each_s, 1e3 * each_s),
                    1e3 * core_s / chosen.ranks,
                )
    results.show(chosen.json)


if __name__ == "__main__":
    main()
