"""Makes the installed PyTorch start as an earlier one does, before a rank's hooks look at it.

For a PYTHONPATH with this folder and PHANTORA_TEST_RELEASE: "2.8" does not hand out kernels, "2.14"
refuses a second kernel from Python for an operator unless it is told that this is meant.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def make_older(torch: Any) -> None:
    """`torch` has just been executed."""
    if os.environ["PHANTORA_TEST_RELEASE"] == "2.8":
        del torch.library.get_kernel
    else:
        torch.library.Library.impl.__kwdefaults__["allow_override"] = False


class OlderPyTorch(importlib.abc.MetaPathFinder):
    """Finds torch as the finders after it do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if fullname != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            make_older(module)

        loader.exec_module = execute_and_change
        return spec


# Behind the hooks' own finders, which add to what it finds.
sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), OlderPyTorch())
