"""A compiled loss over a large vocabulary: its kernels loop over the rows of the logits."""

import torch

ROWS, CLASSES = 1024, 32_000


@torch.compile  # type: ignore[untyped-decorator]
def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """As language models have it."""
    return torch.nn.functional.cross_entropy(logits.float(), targets)


logits = torch.randn(ROWS, CLASSES, device="cuda", dtype=torch.bfloat16, requires_grad=True)
targets = torch.zeros(ROWS, device="cuda", dtype=torch.int64)
for _ in range(3):
    loss(logits, targets).backward()
torch.cuda.synchronize()
