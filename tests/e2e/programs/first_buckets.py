"""DDP whose reducer makes other buckets in the second step, so many milliseconds of work after the
first: the processor's, which take no virtual time.
"""

import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(0)
model = torch.nn.Linear(8192, 8192, bias=False, device="cuda")
wrapped = torch.nn.parallel.DistributedDataParallel(model)
for _ in range(3):
    wrapped(torch.ones(4, 8192, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    end_s = time.thread_time() + float(sys.argv[1]) / 1000
    while time.thread_time() < end_s:
        pass
print(torch.cuda.max_memory_reserved())
dist.destroy_process_group()
