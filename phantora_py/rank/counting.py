"""Has the work of this process counted, for the host time of its rank.

docs/decisions/host-time.md says what counts. Owns no count: csrc/shim/counting does.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from types import ModuleType


class UncountableError(RuntimeError):
    """This interpreter does not tell its calls."""


def counts_work(shim: ctypes.CDLL) -> bool:
    """Whether the run has asked for it: the libraries that count are loaded."""
    return hasattr(shim, "ph_count_frames")


def count_work() -> None:
    """From now on. Raises: UncountableError"""
    # These need the interpreter's lock.
    locked = ctypes.PyDLL(None)
    if not locked.ph_count_frames():
        raise UncountableError(
            f"--host-time counted cannot count the calls of Python {sys.version.split()[0]}; "
            "3.10 to 3.13 are known. Run with --host-time fixed."
        )
    collect = locked.ph_collect_garbage
    collect.argtypes = [ctypes.py_object, ctypes.py_object]
    collect.restype = None
    gc.callbacks.append(collect)


def find_objects_of_tensors(torch: ModuleType) -> None:
    """Lets the shim know a tensor that Python has already. Raises: UncountableError"""
    tensor = torch.empty(0)
    locked = ctypes.PyDLL(None)
    if not locked.ph_find_object_of_tensor(
        ctypes.c_void_p(tensor._cdata), ctypes.c_void_p(id(tensor))
    ):
        raise UncountableError(
            f"--host-time counted cannot count what PyTorch {torch.__version__} gives to Python. "
            "Run with --host-time fixed."
        )
