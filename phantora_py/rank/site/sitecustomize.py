"""Starts the rank's runtime in a Python that was executed, not forked from the zygote.

The launcher puts this directory first in PYTHONPATH. The interpreter may be any, with or without
phantora, so the runtime is loaded by path; then the environment's own sitecustomize, which this one
hides, gets its turn.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load(spec, name):
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _start_runtime():
    # The first Python process of a rank is the rank; ph_attach refuses the others. Helper processes
    # of multiprocessing are told apart even where the rank itself has no runtime.
    if "PHANTORA_RANK" not in os.environ or "--multiprocessing-fork" in sys.orig_argv:
        return
    path = os.path.join(os.path.dirname(_HERE), "runtime.py")
    spec = importlib.util.spec_from_file_location("phantora_rank_runtime", path)
    _load(spec, spec.name).start()


def _chain():
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        _load(spec, "sitecustomize")


_start_runtime()
_chain()
