"""A model whose products are few, to be counted by hand: `throughput.py KIND...`.

`loader`: batches come from a data loader; else from `torch.randint`. `checkpoint` and `reentrant`:
each block is computed again. `compile`, `ddp`, `fsdp`, `tp`: what they say. `count`: prints what
PyTorch's counter makes of a step. `sequence_first`: a layer is made whose rows are places of a
sequence. `images`: convolutions in place of tokens. `evaluate`: after each step the model, and one
that is compared with it, look at larger batches without gradients.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH, BATCH, MICRO_BATCHES, STEPS = (
    *(2, 256, 4, 512, 128, 4),
    *(2, 5),
)
IMAGE, CHANNELS, CLASSES = 32, 16, 8
KINDS = set(sys.argv[1:])


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "tp" not in KINDS:
            parts = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + attended.transpose(1, 2).flatten(-2)
        return x + self.down(nn.functional.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if "sequence_first" in KINDS:
            nn.LSTM(WIDTH, WIDTH)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device).expand(1, -1)
        x = self.tokens(ids) + self.positions(positions)
        for block in self.blocks:
            if KINDS & {"checkpoint", "reentrant"}:
                x = checkpoint(block, x, use_reentrant="reentrant" in KINDS)
            else:
                x = block(x)
        return self.head(x)


class Images(nn.Module):
    """Two convolutions and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1, bias=False)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1, bias=False)
        self.head = nn.Linear(CHANNELS, CLASSES, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(images).relu()).mean((2, 3)))


class Examples(Dataset[tuple[torch.Tensor, ...]]):
    def __len__(self) -> int:
        return BATCH * MICRO_BATCHES * STEPS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        if "images" in KINDS:
            return torch.ones(3, IMAGE, IMAGE), torch.tensor(index % CLASSES)
        ids = torch.arange(LENGTH + 1) % VOCABULARY
        return ids[:-1], ids[1:]


def batches() -> Iterator[tuple[torch.Tensor, ...]]:
    if "loader" in KINDS:
        yield from DataLoader(Examples(), BATCH, num_workers=1)
    while "images" in KINDS:
        yield torch.ones(BATCH, 3, IMAGE, IMAGE), torch.zeros(BATCH, dtype=torch.long)
    while True:
        ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
        yield ids[:, :-1], ids[:, 1:]


def wrapped(model: nn.Module) -> nn.Module:
    ranks = dist.get_world_size()
    if "ddp" in KINDS:
        return nn.parallel.DistributedDataParallel(model)
    if "fsdp" in KINDS:
        return fully_shard(model)
    if "tp" in KINDS:
        mesh = init_device_mesh("cuda", (ranks // 2, 2), mesh_dim_names=("one", "other"))
        for block in model.blocks:
            plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
            parallelize_module(block, mesh["other"], plan)
        return fully_shard(model, mesh=mesh["one"])
    return model


def evaluate(model: nn.Module, reference: nn.Module) -> None:
    with torch.no_grad():
        examples = DataLoader(Examples(), BATCH * MICRO_BATCHES)
        for inputs, _ in examples if "loader" in KINDS else []:
            model(inputs.cuda())
        for judged in (model, reference):
            judged(torch.zeros(4 * BATCH, LENGTH, dtype=torch.long, device="cuda"))


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = wrapped((Images() if "images" in KINDS else Model()).cuda())
    reference = Model().cuda() if "evaluate" in KINDS else model
    if "compile" in KINDS:
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    given = batches()

    def step() -> None:
        for _ in range(MICRO_BATCHES):
            inputs, targets = (one.cuda() for one in next(given))
            with torch.autocast("cuda", dtype=torch.bfloat16):
                outputs = model(inputs)
            classes = outputs.shape[-1]
            loss = nn.functional.cross_entropy(outputs.view(-1, classes), targets.reshape(-1))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if "evaluate" in KINDS:
            evaluate(model, reference)

    for number in range(STEPS):
        if "count" in KINDS and number == 0:
            with FlopCounterMode(display=False) as counter:
                step()
            print(f"counted {counter.get_total_flops()}", flush=True)
        else:
            step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
