"""What torch.compile may see of the functions around a model: gradients that are taken within a
graph, a compiled step of an optimizer, clipping.
"""

import torch
import torch._dynamo.config

STEPS = 3

# Releases that lack it leave the graph at `grad`.
if hasattr(torch._dynamo.config, "trace_autograd_ops"):
    torch._dynamo.config.trace_autograd_ops = True
model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.GELU()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
step = torch.compile(optimizer.step)
data = torch.randn(64, 128, device="cuda", requires_grad=True)


@torch.compile  # type: ignore[untyped-decorator]
def slope(inputs: torch.Tensor) -> torch.Tensor:
    """Twice the gradient."""
    (gradient,) = torch.autograd.grad(model(inputs).square().sum(), inputs)
    return gradient * 2


for _ in range(STEPS):
    slope(data)
    model(data).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    step()
    optimizer.zero_grad()
torch.cuda.synchronize()
