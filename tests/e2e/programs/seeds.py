"""Prints the seed that its GPU's generator has from the machine."""

import torch

print("seed", torch.cuda.initial_seed(), flush=True)
