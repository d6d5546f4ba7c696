"""Assertions on the GPU: those that hold, then one that the arguments name."""

import sys

import torch

KINDS = {
    "int": torch.tensor(0, device="cuda"),
    "float": torch.tensor(-0.0, device="cuda"),
    "bool": torch.ones(3, device="cuda").sum() > 3,
    "complex": torch.tensor(0 + 0j, device="cuda"),
}

kept = torch.ones(1, device="cuda")
for value in (1, 0.1, -0.1, True, 0.1j):
    torch._assert_async(torch.tensor(value, device="cuda"))
torch._assert_async(torch.randn(4, device="cuda").sum() == 0)
torch.cuda.synchronize()
print("held", flush=True)

torch._assert_async(KINDS[sys.argv[1]], "not zero")
print("goes on", flush=True)
for wait in (torch.cuda.synchronize, torch.cuda.Stream().synchronize, kept.item):
    try:
        wait()
    except RuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
torch.cuda.synchronize()
