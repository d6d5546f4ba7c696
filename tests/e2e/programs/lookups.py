"""A large embedding table, looked up and trained."""

import torch

bag = torch.nn.EmbeddingBag(2_000_000, 128, mode="sum", sparse=True, device="cuda")
optimizer = torch.optim.SGD(bag.parameters(), lr=0.1)
for _ in range(4):
    indices = torch.zeros(1 << 20, dtype=torch.int64, device="cuda")
    bag(indices.view(-1, 32)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
