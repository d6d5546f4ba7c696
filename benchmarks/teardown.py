"""How long the end of a run takes when it is not an orderly one, and what is left of it.

    python benchmarks/teardown.py [--ranks 64] [--rounds 5] [--ends leader ...] [--json]

Ranks import torch, use their GPU and wait. Then a rank fails, Ctrl-C is pressed, or a process of
ours is killed with SIGKILL: the leader (`phantora run` itself), the server, the starter or the
sweeper; after the sweeper, which nobody misses until the end, Ctrl-C is pressed. Timed is until no
process of the run lives and its run directory is gone. Medians of the rounds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from measurement import Results, median, parser

from phantora_py.launch.module import module_command

ENDS = ("rank", "Ctrl-C", "leader", "server", "starter", "sweeper")
_MODULES = {"server": "sim_server", "starter": "launch.starter", "sweeper": "sweeper.py"}
START_LIMIT_S = 900.0
END_LIMIT_S = 120.0
PAUSE_S = 0.005

PROGRAM = """
import os, signal, sys
from pathlib import Path
import torch
notes, rank = Path(sys.argv[1]), int(os.environ["RANK"])
held = torch.ones(1000, device="cuda")
torch.cuda.synchronize()
(notes / "run-directory").write_text(os.environ["PHANTORA_RUN_DIR"])
(notes / f"up-{rank}").touch()
if rank == int(os.environ["WORLD_SIZE"]) - 1:
    (notes / "gate").read_bytes()
    sys.exit(3)
while True:
    signal.pause()
"""


def start(ranks: int, notes: Path) -> psutil.Popen:
    """A run whose ranks are all up."""
    (notes / "program.py").write_text(PROGRAM)
    os.mkfifo(notes / "gate")
    options = ["--quiet", "--ranks", str(ranks), "-o", str(notes / "run.phr")]
    command = [*module_command("phantora_py"), "run", *options, "--", sys.executable]
    process = psutil.Popen(
        [*command, str(notes / "program.py"), str(notes)], stderr=subprocess.DEVNULL
    )
    deadline_s = time.monotonic() + START_LIMIT_S
    while len(list(notes.glob("up-*"))) < ranks:
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise SystemExit("the ranks do not start; run the command by hand to see why")
        time.sleep(0.1)
    return process


def end(process: psutil.Popen, how: str, notes: Path) -> None:
    """Brings the end about."""
    if how == "rank":
        (notes / "gate").write_bytes(b"fail")
    elif how == "leader":
        process.kill()
    elif how in _MODULES:
        for child in process.children():
            if _MODULES[how] in " ".join(child.cmdline()):
                child.kill()
    if how in ("Ctrl-C", "sweeper"):
        process.send_signal(signal.SIGINT)


def lives(process: psutil.Process) -> bool:
    """Whether there is more of it than its exit status."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def measure(ranks: int, how: str) -> tuple[float, int]:
    """Seconds until nothing is left, and the processes and directories that are left all the
    same.
    """
    with tempfile.TemporaryDirectory() as name:
        notes = Path(name)
        process = start(ranks, notes)
        family = [process, *process.children(recursive=True)]
        run_directory = Path((notes / "run-directory").read_text())
        began_s = time.monotonic()
        end(process, how, notes)
        while time.monotonic() < began_s + END_LIMIT_S:
            process.poll()
            family = [one for one in family if lives(one)]
            if not family and not run_directory.exists():
                break
            time.sleep(PAUSE_S)
        return time.monotonic() - began_s, len(family) + run_directory.exists()


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, default=64)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--ends", nargs="+", default=ENDS, choices=ENDS)
    chosen = options.parse_args()
    columns = ("what ends it", "s", "least", "most", "left")
    results = Results(f"The end of {chosen.ranks} ranks", columns)
    for how in chosen.ends:
        rounds = [measure(chosen.ranks, how) for _ in range(chosen.rounds)]
        times_s = [seconds for seconds, _ in rounds]
        left = sum(count for _, count in rounds)
        results.add(how, median(times_s), min(times_s), max(times_s), float(left))
    results.show(chosen.json)


if __name__ == "__main__":
    main()
