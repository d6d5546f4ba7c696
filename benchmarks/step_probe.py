"""Runs a training script as `python SCRIPT` would and notes this process's CPU time after every
optimizer step.

    python benchmarks/step_probe.py DIRECTORY SCRIPT [arguments of the script]

Leaves DIRECTORY/rank-<r>.json: CPU seconds, user and system, of all threads, by step. Attention by
cuDNN is off, which libraries that do nothing could not pretend to have.
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


def main() -> None:
    """Run the script, then write what was noted."""
    directory, script = Path(sys.argv[1]), sys.argv[2]
    cpu_s: list[float] = []

    def note(*_: object) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s.append(usage.ru_utime + usage.ru_stime)

    register_optimizer_step_post_hook(note)
    torch.backends.cuda.enable_cudnn_sdp(False)
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")
    (directory / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(cpu_s))


if __name__ == "__main__":
    main()
