"""An executor without a GPU. It says twice what the models say and refuses kernels by name.

Arguments say what goes wrong, by patterns of signatures' texts: die=, hang=, lie=, short= (too few
samples), print= (something of a library's on its output), wait= (for the GPU). `gpu=NAME` is
another GPU, `no-gpu` none; `once=FILE` starts one time only; `asked=FILE` gets a line for each
signature; `slow=SECONDS` passes before each answer.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.settings import Settings
from sim_server.timings import model_timer

arguments = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
gpu = load_gpu("h100")
models = model_timer(Settings(1, 1, 1, load_cluster("h100"), gpu))


def wants(what: str, text: str) -> bool:
    return what in arguments and re.search(arguments[what], text) is not None


if "once" in arguments:
    try:
        Path(arguments["once"]).touch(exist_ok=False)
    except FileExistsError:
        sys.exit("the driver has lost the device")
environment = {
    **{"gpu": arguments.get("gpu", gpu.name), "driver": "580.1"},
    **{"cuda": arguments.get("cuda", "13.2"), "libraries": "fake 1"},
}
if "no-gpu" in sys.argv:
    environment = {"refused": "there is no GPU"}
print(json.dumps(environment), flush=True)
for line in sys.stdin:
    signature = json.loads(line)["signature"]
    text = json.dumps(signature, sort_keys=True)
    if "asked" in arguments:
        with Path(arguments["asked"]).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    time.sleep(float(arguments.get("slow", "0")))
    if wants("die", text):
        os.abort()
    if wants("hang", text):
        time.sleep(600)
    for _ in range(3 if wants("wait", text) else 0):
        print(json.dumps({"waiting": "another measures"}), flush=True)
    if wants("print", text):
        print("a library's remark", flush=True)
    duration_ns = 2.0 * models.time(signature).duration_ns
    if wants("lie", text):
        duration_ns = float("nan")
    count = 2 if wants("short", text) else 5
    answer: dict[str, object] = {"refused": "a kernel by name"}
    if signature["kind"] != "kernel":
        answer = {"warm_ns": [duration_ns] * count, "cold_ns": [1.5 * duration_ns]}
        answer |= {"sm_khz": 1, "memory_khz": 2, "temperature_c": 40, "outliers": 0}
    print(json.dumps(answer), flush=True)
