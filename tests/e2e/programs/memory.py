"""Rank 1 asks for more device memory than there is, gets over it, and goes on."""

import os

import torch

import phantora_py

GIB = 1 << 30


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    kept = torch.empty(40 * GIB, dtype=torch.uint8, device="cuda")
    if os.environ["RANK"] == "1":
        try:
            torch.empty(60 * GIB, dtype=torch.uint8, device="cuda")  # too much
        except torch.cuda.OutOfMemoryError as error:
            free_bytes, total_bytes = torch.cuda.mem_get_info()
            print(f"{free_bytes} {total_bytes} {error}")
    for _ in range(3):
        kept.zero_()
        phantora_py.mark_iteration()


if __name__ == "__main__":
    main()
