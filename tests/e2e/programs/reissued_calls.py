"""Issues signatures as the GPU executor does: the first argument names a file with a JSON list.

What the calls for number N launch is in a range named N; what refused it is printed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from phantora_py.profile.calls import Refusal, make_calls

for number, signature in enumerate(json.loads(Path(sys.argv[1]).read_text())):
    try:
        for call in make_calls(torch, signature):
            torch.cuda.nvtx.range_push(str(number))
            try:
                call()
            except (RuntimeError, TypeError):
                continue  # A candidate that does not take such numbers, as the executor finds, too.
            finally:
                torch.cuda.nvtx.range_pop()
    except Refusal as refusal:
        print(json.dumps([number, str(refusal)]), flush=True)
torch.cuda.synchronize()
