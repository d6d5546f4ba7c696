"""`CUDAGraph.debug_dump` writes its picture by the simulated runtime. Newer PyTorch asks
the package cuda.bindings, which brings a CUDA runtime of its own. The standard library only.
"""

from __future__ import annotations

import ctypes
import os
from types import ModuleType
from typing import Any

GRAPHS = "torch.cuda.graphs"
_VERBOSE = 1  # cudaGraphDebugDotFlagsVerbose


def write_pictures(shim: ctypes.CDLL, module: ModuleType) -> None:
    """`module`: PyTorch's GRAPHS."""

    def dump(cuda_graph: Any, path: str, *, verbose: bool = True) -> None:
        handle = ctypes.c_void_p(cuda_graph.raw_cuda_graph())
        flags = _VERBOSE if verbose else 0
        code = shim.cudaGraphDebugDotPrint(handle, os.fsencode(path), flags)
        if code:
            raise RuntimeError(f"cudaGraphDebugDotPrint answered {code} for {path}")

    if hasattr(module, "_dump_graph_dot"):
        module._dump_graph_dot = dump  # type: ignore[attr-defined]
