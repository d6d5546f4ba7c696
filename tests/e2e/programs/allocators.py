"""What programs ask PyTorch's allocators, whichever PYTORCH_CUDA_ALLOC_CONF has chosen."""

from __future__ import annotations

import torch

MIB = 1 << 20
BLOCKS, BLOCK_BYTES = 8, 24 * MIB


def used_bytes() -> int:
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return int(total_bytes - free_bytes)


def main() -> None:
    torch.ones(1, device="cuda")
    recorded = torch.cuda.get_allocator_backend() == "native"
    if recorded:
        torch.cuda.memory._record_memory_history()
    before_bytes = used_bytes()
    blocks = [torch.empty(BLOCK_BYTES, dtype=torch.uint8, device="cuda") for _ in range(BLOCKS)]
    torch.cuda.synchronize()
    print(f"used {(used_bytes() - before_bytes) // MIB} MiB")
    print(f"allocated {torch.cuda.memory_allocated() // MIB} MiB")
    if recorded:
        snapshot = torch.cuda.memory._snapshot()
        sizes = [segment["total_size"] for segment in snapshot["segments"]]
        traced = [entry["action"] for entry in snapshot["device_traces"][0]]
        print(f"segments {len(sizes)} of {sum(sizes) // MIB} MiB, traced {traced.count('alloc')}")
    del blocks
    torch.cuda.empty_cache()
    print(f"left {(used_bytes() - before_bytes) // MIB} MiB")
    # A large block fits where others were only if memory can be mapped anew.
    blocks = [torch.empty(BLOCK_BYTES, dtype=torch.uint8, device="cuda") for _ in range(BLOCKS)]
    del blocks[::2]
    large = torch.empty(BLOCKS // 2 * BLOCK_BYTES, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    print(f"with a large one {(used_bytes() - before_bytes) // MIB} MiB", flush=True)
    del large


if __name__ == "__main__":
    main()
