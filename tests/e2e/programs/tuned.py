"""Graphs that ask for tuning: by `mode`, by options and by Inductor's configuration.

Prints how many configurations were compiled and tried; Inductor prints of templates itself.
"""

import torch
from torch._dynamo.utils import counters


class Block(torch.nn.Module):  # type: ignore[misc]
    """Products, and a kernel of Inductor's."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(256, 512)
        self.down = torch.nn.Linear(512, 256)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """The block's output, as large as its input."""
        return torch.nn.functional.layer_norm(data + self.down(self.up(data).relu()), (256,))


def train(compiled: torch.nn.Module) -> None:
    """Two steps."""
    data = torch.randn(64, 256, device="cuda")
    for _ in range(2):
        compiled(data).square().mean().backward()
    torch.cuda.synchronize()


train(torch.compile(Block().cuda(), mode="max-autotune-no-cudagraphs"))
torch._dynamo.reset()
train(torch.compile(Block().cuda(), options={"coordinate_descent_tuning": True}))
torch._dynamo.reset()
torch._inductor.config.max_autotune_gemm = True
torch._inductor.config.coordinate_descent_tuning = True
train(torch.compile(Block().cuda()))
tried = counters["inductor"]
print(f"tried {counters['inductor']['coordesc_tuning_bench']} configurations")
