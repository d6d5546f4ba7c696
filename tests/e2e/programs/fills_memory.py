"""A model of 1 GiB whose activations are 2 GiB for each sample, half of that with --checkpoint."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--checkpoint", action="store_true")
parser.add_argument("--fault", action="store_true")
options = parser.parse_args()
if options.fault:
    raise SystemExit("this is no matter of memory")
weight = torch.nn.Parameter(torch.empty(1 << 28, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
rows = options.batch << (9 if options.checkpoint else 10)
for _ in range(8):
    held = torch.empty(rows, 1 << 19, device="cuda")
    (weight.sum() * held.new_ones(())).backward()
    optimizer.step()
    optimizer.zero_grad()
    del held
torch.cuda.synchronize()
