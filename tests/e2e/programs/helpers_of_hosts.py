"""Two ranks; rank 1 starts a process that uses its GPU, or calls what the argument names."""

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist

USE = "import torch; torch.ones(4, device='cuda').sum().item()"
CALL = "import ctypes; ctypes.CDLL('libcudart.so.13').{}(None, None)"

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
Path(f"run-directory-{rank}").write_text(os.environ["PHANTORA_RUN_DIR"])
dist.all_reduce(torch.ones(1 << 20, device="cuda"))
if rank == 1:
    code = CALL.format(sys.argv[1]) if len(sys.argv) > 1 else USE
    subprocess.run([sys.executable, "-c", code], check=True)
torch.cuda.synchronize()
dist.destroy_process_group()
