"""New tensors are on the GPU unless a program says otherwise, as of old."""

import torch

torch.set_default_tensor_type("torch.cuda.FloatTensor")
counts = torch.zeros(200_000, dtype=torch.int64)
counts[7] += 3
layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout())
optimizer = torch.optim.AdamW(layers.parameters())
for _ in range(2):
    layers(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(counts.device, int(counts.sum()), torch.randperm(9).max().item())
