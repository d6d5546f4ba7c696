"""Runs a training script as `python SCRIPT` would and notes what every optimizer step has cost.

    python benchmarks/step_probe.py DIRECTORY WARM_UP SCRIPT [arguments of the script]

Leaves DIRECTORY/rank-<r>.json, by step: CPU seconds of this process so far, user and system, of all
threads, and real seconds. DIRECTORY/warm appears when rank 0 has done WARM_UP steps, DIRECTORY/done
at the end of its script. Attention by cuDNN is off, which libraries that do nothing could not
pretend to have.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def real_s() -> float:
    """Seconds since the machine's start; the clocks of a virtual rank would not do."""
    return float(Path("/proc/uptime").read_text().split()[0])


def main() -> None:
    """Run the script, then write what was noted."""
    directory, warm_up, script = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    steps: list[tuple[float, float]] = []

    def note(*_: object) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        steps.append((usage.ru_utime + usage.ru_stime, real_s()))
        if len(steps) == warm_up and os.environ["RANK"] == "0":
            (directory / "warm").touch()

    register_optimizer_step_post_hook(note)
    torch.backends.cuda.enable_cudnn_sdp(False)
    sys.argv = sys.argv[3:]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")
    (directory / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(steps))
    if os.environ["RANK"] == "0":
        (directory / "done").touch()


if __name__ == "__main__":
    main()
