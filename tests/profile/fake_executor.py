"""An executor without a GPU. It says twice what the models say, refuses kernels by name, dies of
products with m = 13, and hangs over those with m = 14.
"""

import json
import os
import sys
import time

from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer

gpu = load_gpu("h100")
models = KernelTimer(gpu)
environment = {"gpu": gpu.name, "driver": "1", "cuda": "13.2", "libraries": "fake 1"}
if "no-gpu" in sys.argv:
    environment = {"refused": "there is no GPU"}
print(json.dumps(environment), flush=True)
for line in sys.stdin:
    signature = json.loads(line)["signature"]
    if signature.get("m") == 13:
        os.abort()
    if signature.get("m") == 14:
        time.sleep(600)
    duration_ns = 2.0 * models.time(signature).duration_ns
    answer: dict[str, object] = {"refused": "a kernel by name"}
    if signature["kind"] != "kernel":
        answer = {"warm_ns": [duration_ns] * 5, "cold_ns": [1.5 * duration_ns], "sm_khz": 1}
    print(json.dumps(answer), flush=True)
