"""PyTorch's own kernels, and ours in their place. Imports the standard library only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

Kernel = Callable[..., Any]


class Operators:
    """The kernels of one device that this process replaces, of PyTorch since 2.9.

    Raises: OSError if this release does not hand out its own.
    """

    def __init__(self, torch: ModuleType, device: str) -> None:
        if not hasattr(torch.library, "get_kernel"):
            raise OSError(f"PyTorch {torch.__version__} does not tell the kernels that we replace")
        self._get_kernel = torch.library.get_kernel
        self._library = torch.library.Library("aten", "IMPL")
        self._device = device

    def replace(self, name: str, make: Callable[[Kernel], Kernel]) -> None:
        """Registers what `make` makes of the usual kernel. It gets the dispatch keys first, which
        the usual one wants too.
        """
        kernel = make(self._get_kernel(f"aten::{name}", self._device).call_boxed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some releases warn of what we want
            self._library.impl(name, kernel, self._device, with_keyset=True)
