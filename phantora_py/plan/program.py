"""A placement as a training program of its own: plain PyTorch, with the exchanges by hand.

    program.py PLAN.json TABLES.json BATCH ITERATIONS

The tables are `nn.EmbeddingBag` with sparse gradients and SGD; FBGEMM's fused kernels are not in
it. Indices are random and equally many on every rank. It imports nothing of phantora.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Shard:
    """A part of a table on this rank, and what it exchanges with the others."""

    def __init__(self, table: dict[str, Any], placed: dict[str, Any], batch: int) -> None:
        rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.kind = placed["sharding_type"]
        self.mine = rank in placed["ranks"]
        self.parts = len(placed["ranks"])
        self.owners = placed["ranks"]
        self.batch = batch
        pooling = table.get("pooling", 1)
        mean = pooling.get("mean", 1) if isinstance(pooling, dict) else pooling
        self.pooling = max(1, round(mean * len(table.get("features", [0]))))
        rows, self.dim = table["rows"], table["dim"]
        if self.kind == "row_wise":
            rows = -(-rows // self.parts)
            self.pooling = max(1, round(self.pooling / self.parts))
        if self.kind == "column_wise":
            self.dim //= self.parts
        self.rows = rows
        if self.mine:
            self.bag = torch.nn.EmbeddingBag(
                rows,
                self.dim,
                mode="sum",
                sparse=self.kind != "data_parallel",
                device="cuda",
                dtype=_TYPES.get(table.get("type", "fp32"), torch.float32),
            )

    def lookup(self) -> torch.Tensor | None:
        """The results of the samples that this rank looks up."""
        samples = self.batch if self.kind == "data_parallel" else self.batch * self.ranks
        indices = self._indices(samples) if self.kind == "data_parallel" else self._received()
        if not self.mine:
            return None
        offsets = torch.arange(0, samples * self.pooling, self.pooling).to("cuda")
        found: torch.Tensor = self.bag(indices, offsets)
        return found.float()

    def _indices(self, samples: int) -> torch.Tensor:
        return torch.randint(0, self.rows, (samples * self.pooling,)).to("cuda")

    def _received(self) -> torch.Tensor:
        """Every rank's indices at those that have the table."""
        own = self.batch * self.pooling
        sent = [own if rank in self.owners else 0 for rank in range(self.ranks)]
        received = [own if self.mine else 0] * self.ranks
        indices = self._indices(self.batch).repeat(len(self.owners))
        output = torch.zeros(sum(received), dtype=torch.int64, device="cuda")
        dist.all_to_all_single(output, indices, received, sent)
        return output


class Exchange(torch.autograd.Function):  # type: ignore[misc]
    """Results to the samples' ranks, and gradients back; sizes by rank."""

    @staticmethod
    def forward(ctx: Any, results: torch.Tensor, received: list[int], sent: list[int]) -> Any:
        ctx.sizes = received, sent
        output = torch.empty(sum(received), device="cuda")
        dist.all_to_all_single(output, results, received, sent)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        received, sent = ctx.sizes
        output = torch.empty(sum(sent), device="cuda")
        dist.all_to_all_single(output, gradients[0].contiguous(), sent, received)
        return output, None, None


class Scatter(torch.autograd.Function):  # type: ignore[misc]
    """Sums of all ranks' parts to the samples' ranks, and gradients back."""

    @staticmethod
    def forward(ctx: Any, results: torch.Tensor, ranks: int) -> Any:
        ctx.ranks = ranks
        output = torch.empty(results.numel() // ranks, device="cuda")
        dist.reduce_scatter_tensor(output, results)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        output = torch.empty(gradients[0].numel() * ctx.ranks, device="cuda")
        dist.all_gather_into_tensor(output, gradients[0].contiguous())
        return output, None


def iterate(shards: list[Shard], batch: int) -> None:
    """Forward and backward of all tables."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = [(shard, shard.lookup()) for shard in shards]
    whole = [one for s, one in found if one is not None and s.kind in ("table_wise", "column_wise")]
    rows = [one for s, one in found if one is not None and s.kind == "row_wise"]
    copies = [one for s, one in found if one is not None and s.kind == "data_parallel"]
    outputs = [one.flatten() for one in copies]
    exchanged = [s for s, _ in found if s.kind in ("table_wise", "column_wise")]
    if exchanged:
        each = [batch * sum(s.dim * s.owners.count(r) for s in exchanged) for r in range(ranks)]
        sent = torch.cat([one.flatten() for one in whole]) if whole else torch.zeros(0).to("cuda")
        if not whole:
            sent.requires_grad_()
        outputs.append(Exchange.apply(sent, each, [each[rank]] * ranks))
    if rows:
        outputs.append(Scatter.apply(torch.cat([one.flatten() for one in rows]), ranks))
    torch.cat(outputs).sum().backward()
    for shard in shards:
        if shard.kind == "data_parallel":
            dist.all_reduce(shard.bag.weight.grad)


def main() -> None:
    """Runs the iterations."""
    plan_file, tables_file, batch, iterations = sys.argv[1:]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    (placed,) = json.loads(Path(plan_file).read_text(encoding="utf-8"))["plan"].values()
    content = json.loads(Path(tables_file).read_text(encoding="utf-8"))
    tables = content["tables"] if isinstance(content, dict) else content
    shards = [Shard(table, placed[table["name"]], int(batch)) for table in tables]
    weights = [shard.bag.weight for shard in shards if shard.mine]
    optimizer = torch.optim.SGD(weights or [torch.zeros(1, requires_grad=True)], lr=0.01)
    for _ in range(int(iterations)):
        optimizer.zero_grad()
        iterate(shards, int(batch))
        optimizer.step()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
