"""Kernels that put the address of what they write together from bytes, which lie anywhere."""

from __future__ import annotations

import torch

THROUGH = """extern "C" __global__ void through(const unsigned char* table, int place) {
  unsigned long long address = 0;
  for (int i = 7; i >= 0; --i) address = address << 8 | table[place + i];
  *(long long*)address = 9;
}"""
PLACES = (8, 12, 3, 30)


def main() -> None:
    through = torch.cuda._compile_kernel(THROUGH, "through")
    other = torch.arange(3, 7, device="cuda")
    # Small numbers, which are no addresses however they are cut.
    numbers = torch.tensor([0, 17] * 32, dtype=torch.int32).view(torch.uint8)
    for place in PLACES:
        written = torch.arange(3, 7, device="cuda")
        table = numbers.clone()
        table[place : place + 8] = torch.tensor([written.data_ptr()]).view(torch.uint8)
        through((1, 1, 1), (1, 1, 1), (table.cuda(), place))
        print(f"at {place}: {written.tolist()}")
        pinned = torch.arange(3, 7, device="cuda")
        table[place : place + 8] = torch.tensor([pinned.data_ptr()]).view(torch.uint8)
        through((1, 1, 1), (1, 1, 1), (table.pin_memory(), place))
        print(f"pinned, at {place}: {pinned.tolist()}")
    print(f"beside them: {other.tolist()}")


if __name__ == "__main__":
    main()
