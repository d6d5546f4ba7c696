"""The GPU executor: `python -m phantora_py.profile.torch_executor`.

`sim_server.processes.executor` tells the protocol.

It owns one real GPU and issues launches again, timed in `samples`: those of libraries as calls of
PyTorch that come to the same (`calls`), kernels by name with the arguments that a rank gave them
(`kernels`). What it cannot issue it refuses.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from phantora_py.profile.calls import Refusal, make_call
from phantora_py.profile.driver import DRIVER, load
from phantora_py.profile.kernels import Kernels
from phantora_py.profile.lock import GpuLock
from phantora_py.profile.samples import measure

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBRARY = re.compile(r"nvidia-(cublas|cudnn)(-cu\d+)?")
_NO_GPU = (
    "PyTorch {version} (CUDA {cuda}) finds no GPU. Check that nvidia-smi lists one here and that "
    "its driver is new enough for this CUDA; without a GPU run without --gpu, with a cache from "
    "elsewhere (--cache) or the models alone"
)


def main() -> int:
    """Answers until the input ends."""
    # A hung kernel must not outlive whoever asked for it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is no answer.

    def say(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    import torch  # noqa: PLC0415 - whoever only reads this module needs none

    if not torch.cuda.is_available():
        say({"refused": _NO_GPU.format(version=torch.__version__, cuda=torch.version.cuda)})
        return 1
    torch.manual_seed(0)
    say(_environment(torch))
    kernels = Kernels(torch)
    lock = GpuLock(os.fsdecode(load(DRIVER).path))
    for line in sys.stdin:
        with lock.held(lambda: say({"waiting": "another executor measures on this machine"})):
            answer = _answer(torch, kernels, json.loads(line))
        say(answer)
    return 0


def _answer(torch: Any, kernels: Kernels, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    signature = asked["signature"]
    try:
        if signature["kind"] == "kernel":
            found = measure(torch, kernels.call(signature, asked.get("launch")))
        else:
            found = measure(torch, make_call(torch, signature))
        return found | _state(torch)
    except Refusal as refusal:
        return {"refused": str(refusal)}
    except torch.cuda.OutOfMemoryError:
        return {"refused": "it does not fit into the GPU's memory"}
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        # After a fault nothing works any more: the next start will.
        if "CUDA error" in str(error):
            raise
        return {"refused": str(error).partition("\n")[0] or repr(error)}
    finally:
        torch.cuda.empty_cache()


def _environment(torch: Any) -> dict[str, str]:
    """See `sim_server.timing_cache.Environment`."""
    libraries = {"torch": torch.__version__}
    for distribution in importlib.metadata.distributions():
        found = _LIBRARY.fullmatch(distribution.metadata["Name"] or "")
        if found:
            libraries[found[1]] = distribution.version
    return {
        "gpu": torch.cuda.get_device_name(0),
        "driver": _ask_driver(torch, "driver_version")[0],
        "cuda": torch.version.cuda,
        "libraries": ", ".join(f"{name} {libraries[name]}" for name in sorted(libraries)),
    }


def _state(torch: Any) -> dict[str, int | None]:
    """Clocks and temperature right after a series."""
    said = _ask_driver(torch, "clocks.sm", "clocks.mem", "temperature.gpu")
    sm_mhz, memory_mhz, celsius = (int(text) if text.isdigit() else None for text in said)
    return {
        "sm_khz": (sm_mhz or 0) * 1000,
        "memory_khz": None if memory_mhz is None else memory_mhz * 1000,
        "temperature_c": celsius,
    }


def _ask_driver(torch: Any, *what: str) -> list[str]:
    """Figures of nvidia-smi, "" where it has none."""
    device = f"--id=GPU-{torch.cuda.get_device_properties(0).uuid}"
    words = ["nvidia-smi", f"--query-gpu={','.join(what)}", "--format=csv,noheader,nounits", device]
    try:
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return [""] * len(what)
    parts = [part.strip() for part in said.strip().split(",")]
    return parts if len(parts) == len(what) else [""] * len(what)


if __name__ == "__main__":
    sys.exit(main())
