"""Different values among products that nobody computes: PyTorch asks how many there are."""

import torch

unknown = torch.randn(8, 8, device="cuda") @ torch.randn(8, 8, device="cuda")
found, inverse, counts = torch.unique(unknown, return_inverse=True, return_counts=True)
print(len(found), inverse.shape == unknown.shape, counts.tolist())
rows, counts = torch.unique_consecutive(unknown, return_counts=True, dim=0)
print(tuple(rows.shape), counts.tolist())
print(len(unknown.unique(sorted=False)), len(torch.unique(unknown, dim=1)[0]))
print(tuple(torch.matrix_exp(torch.stack([unknown, unknown])).shape))
known = torch.tensor([3, 3, 1, 1], device="cuda")
print(known.unique().tolist(), torch.unique(known[:0]).tolist())
