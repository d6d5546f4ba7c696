"""Graphs are compiled without the tuning that a program asks for (`mode="max-autotune"`,
`coordinate_descent_tuning`): no model tells its candidates apart, and compiling them takes minutes.
docs/decisions/compiled-kernels.md has the reasons. The standard library only.
"""

from __future__ import annotations

import ctypes
import functools
from types import ModuleType
from typing import Any

from .caveats import tell_caveat

GRAPH_COMPILER = "torch._inductor.compile_fx"
# Of Inductor's configuration.
_OPTIONS = (
    *("max_autotune", "max_autotune_pointwise", "max_autotune_gemm"),
    "coordinate_descent_tuning",
)


def compile_untuned(shim: ctypes.CDLL, module: ModuleType) -> None:
    """Unless a GPU measures what the program launches. `module`: Inductor's GRAPH_COMPILER.

    The outer function makes the key that the result is stored under; the inner one also compiles
    what is left until the first backward pass, under the options of its own.
    """
    tell_once = functools.cache(functools.partial(tell_caveat, shim, "tuning"))
    for name in ("compile_fx", "_compile_fx_inner"):
        usual = getattr(module, name)

        @functools.wraps(usual)
        def compile_(*arguments: Any, usual: Any = usual, **others: Any) -> Any:
            asked = [option for option in _OPTIONS if getattr(module.config, option)]
            if not asked or shim.ph_keeps_launches():
                return usual(*arguments, **others)
            tell_once()
            with module.config.patch(dict.fromkeys(asked, False)):
                return usual(*arguments, **others)

        setattr(module, name, compile_)
