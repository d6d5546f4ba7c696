"""Operators of a library beside PyTorch's, on small tensors: the program reads back what they
write. A module of the name of one that phantora knows registers them.
"""

import sys
import types
from importlib.abc import Loader
from importlib.machinery import ModuleSpec

import torch

_library = torch.library.Library("fbgemm", "DEF")
_library.define("twice_sparse(Tensor values) -> Tensor")
_library.define("embedding_twice(Tensor values) -> Tensor")


def on_cpu(values: torch.Tensor) -> torch.Tensor:
    return values * 2


def on_device(values: torch.Tensor) -> torch.Tensor:
    """What a kernel of the library writes, phantora does not know."""
    return torch.empty_like(values)


for name in ("twice_sparse", "embedding_twice"):
    _library.impl(name, on_cpu, "CPU")
    _library.impl(name, on_device, "CUDA")


class _Finder:
    """The library's module is found, as one that is installed would be."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> object:
        if name != "fbgemm_gpu":
            return None
        return ModuleSpec(name, _Loader())


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return types.ModuleType("fbgemm_gpu")

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.append(_Finder())  # type: ignore[arg-type]
import fbgemm_gpu  # noqa: E402, F401

lengths = torch.tensor([3, 0, 5], device="cuda")
print("lengths", torch.ops.fbgemm.twice_sparse(lengths).tolist())
print("weights", torch.ops.fbgemm.embedding_twice(lengths).tolist())
print("of the CPU", torch.ops.fbgemm.twice_sparse(lengths.cpu()).tolist())
