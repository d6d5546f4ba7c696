"""A large host tensor is filled and looked at before the first use of a GPU."""

import torch

weights = torch.randn(1024, 1024)  # filled
print(weights.sum().item(), torch.ones(1, device="cuda").item())
