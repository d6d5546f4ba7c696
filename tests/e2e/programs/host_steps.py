"""An optimizer on parameters in host memory, whose gradients a GPU computes: offloading."""

import torch

STEPS = 3

on_gpu = torch.nn.Linear(512, 512, device="cuda")
in_host_memory = [torch.nn.Parameter(torch.zeros(one.shape)) for one in on_gpu.parameters()]
adam = torch.optim.AdamW(in_host_memory)
small = torch.optim.SGD([torch.nn.Parameter(torch.zeros(8))])
of_gpu = torch.optim.SGD(on_gpu.parameters())
for _ in range(STEPS):
    on_gpu(torch.randn(4, 512, device="cuda")).sum().backward()
    for parameter, computed in zip(in_host_memory, on_gpu.parameters(), strict=True):
        parameter.grad = computed.grad.cpu()
    small.param_groups[0]["params"][0].grad = torch.zeros(8)
    for optimizer in (adam, small, of_gpu):
        optimizer.step()
    of_gpu.zero_grad()
