"""A scale that is read just before gradients go through activations, and again behind them."""

import torch
from torch.nn import functional

ACTIVATIONS = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "hardtanh": functional.hardtanh,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "softplus": functional.softplus,
    "dropout": functional.dropout,
}
inputs = torch.randn(64, 64, device="cuda") @ torch.randn(64, 64, device="cuda")
for name, activation in ACTIVATIONS.items():
    leaf = inputs.clone().requires_grad_()
    loss = activation(leaf).sum()
    scale = torch.full((), 65536.0, device="cuda")
    for each in (loss, leaf):
        each.register_hook(lambda gradient, scale=scale: (scale.item(), gradient)[1])
    (loss * scale).backward()
    print(name, scale.item())

layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout()).cuda()
optimizer = torch.optim.AdamW(layers.parameters())
scaler = torch.amp.GradScaler()
for _ in range(2):
    scaler.scale(layers(inputs).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    print("scaler", scaler.get_scale())
