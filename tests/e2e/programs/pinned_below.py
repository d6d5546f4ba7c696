"""Pinned host memory on both sides of the device's: what is written on the device is unknown."""

import ctypes

import torch

BYTES = 1 << 16
# Where the heap of an executable lies that is not relocated.
LOW = 0x1000_0000
PROTECTION, FLAGS = 0x3, 0x22 | 0x100000  # read and write; private, anonymous, at this place or not


def main() -> None:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    assert libc.mmap(LOW, BYTES, PROTECTION, FLAGS, -1, 0) == LOW
    torch.cuda.init()
    assert int(torch.cuda.cudart().cudaHostRegister(LOW, BYTES, 0)) == 0
    kept = torch.ones(8).pin_memory()
    numbers = torch.arange(8, device="cuda")
    ones = torch.ones(512, 512, device="cuda")
    numbers.copy_((ones @ ones)[0, :8])  # nobody computes them
    print(numbers.tolist(), kept.sum().item())


if __name__ == "__main__":
    main()
