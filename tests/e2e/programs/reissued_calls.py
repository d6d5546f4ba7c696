"""Issues signatures, a JSON list in the first argument, as the GPU executor does."""

from __future__ import annotations

import json
import sys

import torch

from phantora_py.profile.torch_executor import make_call

for signature in json.loads(sys.argv[1]):
    make_call(torch, signature)()
    torch.cuda.synchronize()
