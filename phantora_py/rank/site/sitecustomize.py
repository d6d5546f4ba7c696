"""Starts the rank's runtime in a Python that was executed, not forked from the zygote; in a script
that runs before the ranks, hands over what is a launcher (phantora_py/launchers/stand_in.py).

The launcher puts this directory first in PYTHONPATH. The interpreter may be any, with or without
phantora, so the runtime is loaded by path; then the environment's own sitecustomize, which this one
hides, gets its turn.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load(spec: ModuleSpec | None, name: str) -> ModuleType | None:
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _hand_over() -> None:
    """Ends this process if it is a launcher, once the run that it became has ended."""
    if "PHANTORA_SCRIPT" not in os.environ:
        return
    folder = os.path.dirname(os.path.dirname(_HERE))
    path = os.path.join(folder, "launchers", "stand_in.py")
    name = "phantora_stand_in"
    stand_in = _load(importlib.util.spec_from_file_location(name, path), name)
    status = stand_in.hand_over([sys.executable, *sys.orig_argv[1:]]) if stand_in else None
    if status is not None:
        sys.stdout.flush()
        os._exit(status)


def _print_lines() -> None:
    """A line is there once it is printed, as on a terminal, and whole: those of several processes
    that share an output do not get into each other, as they would without a buffer.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)


def _start_runtime() -> None:
    if "PHANTORA_RANK" not in os.environ and "PHANTORA_OWN_RANKS" not in os.environ:
        return
    package, name = os.path.dirname(_HERE), "phantora_rank"
    path = os.path.join(package, "__init__.py")
    places = [package]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    _load(spec, name)
    runtime = importlib.import_module(f"{name}.runtime")
    triton_kernels = importlib.import_module(f"{name}.triton_kernels")
    # The first Python process of a rank is the rank; ph_attach refuses the others. Helper processes
    # of multiprocessing are told apart even where the rank itself has no runtime.
    if "PHANTORA_RANK" not in os.environ:
        runtime.prepare()
    elif "--multiprocessing-fork" in sys.orig_argv:
        runtime.follow()
    elif triton_kernels.is_worker():
        runtime.share_kernels()
    else:
        runtime.start()


def _chain() -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    _load(PathFinder.find_spec("sitecustomize", sys.path), "sitecustomize")


_print_lines()
_hand_over()
_start_runtime()
_chain()
