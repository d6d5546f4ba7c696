"""Managed memory: what kernels leave there, what moves, what stays on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

COUNT = 64 << 20
ADD = 'extern "C" __global__ void add(float* x) { x[threadIdx.x] += 1; }'
GLOBAL, PREFERRED, ACCESSED_BY = 1, 3, 5
RUNTIME = ctypes.CDLL("libcudart.so.13")


class Location(ctypes.Structure):
    """cudaMemLocation."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


HOST, DEVICE = Location(2, 0), Location(1, 0)


class Floats:
    """What `torch.as_tensor` makes a tensor of the device of."""

    def __init__(self, pointer: ctypes.c_void_p, count: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (pointer.value, False),
            "shape": (count,),
            "typestr": "<f4",
            "version": 2,
        }


def call(name: str, *arguments: object) -> None:
    code = getattr(RUNTIME, name)(*arguments)
    assert code == 0, (name, code)


def allocate(count: int) -> ctypes.c_void_p:
    pointer = ctypes.c_void_p()
    call("cudaMallocManaged", ctypes.byref(pointer), ctypes.c_size_t(4 * count), GLOBAL)
    return pointer


def milliseconds(work: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    elapsed: float = begin.elapsed_time(end)
    return elapsed


def large() -> None:
    pointer, size = allocate(COUNT), ctypes.c_size_t(4 * COUNT)
    on_host = (ctypes.c_float * COUNT).from_address(pointer.value or 0)
    on_host[:4] = [1.0, 2.0, 3.0, 4.0]
    tensor = torch.as_tensor(Floats(pointer, COUNT), device="cuda")
    assert tensor.data_ptr() == pointer.value
    reversed_ = torch.arange(3, -1, -1, device="cuda")
    torch.index_select(tensor[:4].clone(), 0, reversed_, out=tensor[:4])
    torch.cuda.synchronize()
    print("by an operator:", on_host[:4], tensor[:4].tolist())
    call("cudaMemset", pointer, 0, ctypes.c_size_t(4))
    torch.cuda.synchronize()
    print("by a fill:", on_host[:4])

    call("cudaMemPrefetchAsync", pointer, size, HOST, 0, None)
    once = milliseconds(lambda: tensor.add_(1))  # brings the pages
    again = milliseconds(lambda: tensor.add_(1))
    print(f"first {once:.4f} second {again:.4f}")
    print("unknown:", on_host[0])

    call("cudaMemPrefetchAsync", pointer, size, HOST, 0, None)
    call("cudaMemAdvise", pointer, size, PREFERRED, HOST)
    call("cudaMemAdvise", pointer, size, ACCESSED_BY, DEVICE)
    stays = [milliseconds(lambda: tensor.add_(1)) for _ in range(2)]
    print(f"stays {stays[0]:.4f} {stays[1]:.4f}")
    free_bytes, _ = torch.cuda.mem_get_info()
    call("cudaFree", pointer)
    assert torch.cuda.mem_get_info()[0] == free_bytes, "it was on the host"


def shared() -> None:
    add = torch.cuda._compile_kernel(ADD, "add")
    count = 8 << 20  # none is carried out
    pointer = allocate(count)
    on_host = (ctypes.c_float * 4).from_address(pointer.value or 0)
    on_host[:] = [1.0, 2.0, 3.0, 4.0]
    tensor = torch.as_tensor(Floats(pointer, count), device="cuda")
    torch.add(tensor, 1)
    torch.cuda.synchronize()
    print("only read:", on_host[:])
    add((1, 1, 1), (4, 1, 1), (tensor,))  # may write
    torch.cuda.synchronize()
    print("may be written:", on_host[:])


def main() -> None:
    torch.cuda.init()
    large()
    shared()


if __name__ == "__main__":
    main()
