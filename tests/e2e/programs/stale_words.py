"""A reduction into pinned memory, and one with the address of such memory on its stack."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import torch

WORDS = 1 << 14
LIBC = ctypes.CDLL(None)


class Litter(ctypes.Structure):
    """By value, so that a call leaves it on the stack."""

    _fields_ = (("words", ctypes.c_uint64 * WORDS),)


LIBC.abs.argtypes = [Litter]


def litter_stack(pinned: torch.Tensor) -> None:
    LIBC.abs(Litter((ctypes.c_uint64 * WORDS)(*[pinned.data_ptr()] * WORDS)))


def interface(pinned: torch.Tensor) -> torch.Tensor:
    described = {
        "shape": tuple(pinned.shape),
        "typestr": "<f4",
        "data": (pinned.data_ptr(), False),
        "version": 3,
    }
    return torch.as_tensor(SimpleNamespace(__cuda_array_interface__=described), device="cuda")


class Capsule(ctypes.Structure):
    """DLManagedTensor of a vector of floats on the first GPU. Source: DLPack's dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


KEPT: list[object] = []


def capsule(pinned: torch.Tensor) -> torch.Tensor:
    shape = (ctypes.c_int64 * 1)(len(pinned))
    strides = (ctypes.c_int64 * 1)(1)
    described = Capsule(
        pinned.data_ptr(), (2, 0), 1, 2, 32, 1, ctypes.addressof(shape), ctypes.addressof(strides)
    )
    KEPT.extend((shape, strides, described))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return torch.from_dlpack(new(ctypes.addressof(described), b"dltensor", None))


def storage(pinned: torch.Tensor) -> torch.Tensor:
    """As an extension may make it: without a word to PyTorch of whose memory it is."""
    own = torch._C._construct_storage_from_data_pointer(
        pinned.data_ptr(), torch.device("cuda", 0), pinned.numel() * pinned.element_size()
    )
    return torch.empty(0, device="cuda").set_(own, 0, pinned.shape)


VIEWS = {"stale": None, "interface": interface, "capsule": capsule, "storage": storage}


def main() -> None:
    view = VIEWS[sys.argv[1]]
    unknown = torch.randn(4096, device="cuda")
    pinned = torch.zeros(1).pin_memory()
    if view is not None:
        torch.sum(unknown, (0,), keepdim=True, out=view(pinned))
        torch.cuda.synchronize()
        print(pinned.item())
        return
    litter_stack(pinned)
    total = unknown.sum()
    torch.cuda.synchronize()
    print(pinned.item(), tuple(total.shape))


if __name__ == "__main__":
    main()
