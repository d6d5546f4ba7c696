"""Kernels that read pointers out of pinned host memory, and that write such memory."""

from __future__ import annotations

import torch

THROUGH = 'extern "C" __global__ void through(long long** table) { table[0][0] = 9; }'
INTO = 'extern "C" __global__ void into(long long* host) { host[0] = 9; }'


def main() -> None:
    one = (1, 1, 1)
    through = torch.cuda._compile_kernel(THROUGH, "through")
    into = torch.cuda._compile_kernel(INTO, "into")
    numbers = torch.arange(3, 7, device="cuda")
    table = torch.tensor([numbers.data_ptr()]).pin_memory()
    through(one, one, (table,))
    print("changed through a table:", numbers.tolist())  # a read of unknown values
    other = torch.arange(3, 7, device="cuda")
    host = torch.zeros(4, dtype=torch.int64).pin_memory()
    into(one, one, (host,))  # may have been read back
    torch.cuda.synchronize()
    print("not changed:", other.tolist(), flush=True)


if __name__ == "__main__":
    main()
