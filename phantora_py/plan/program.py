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
    """What this rank has of a table: a part of its rows and columns, a copy, or nothing."""

    def __init__(self, table: dict[str, Any], placed: dict[str, Any], batch: int) -> None:
        rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.owners = placed["ranks"]
        self.mine = rank in self.owners
        self.copied = placed["sharding_spec"] is None
        whole = [{"shard_offsets": [0, 0], "shard_sizes": [table["rows"], table["dim"]]}]
        shards = whole if self.copied else placed["sharding_spec"]["shards"]
        self.rows, self.dim = shards[0]["shard_sizes"]
        # Ranks that share the rows of the first column, as of every other.
        self.split = sum(shard["shard_offsets"][1] == 0 for shard in shards)
        self.batch = batch
        lookups = table["pooling"] * len(table.get("features", [0]))
        self.pooling = max(1, round(lookups / self.split))
        if self.mine:
            self.bag = torch.nn.EmbeddingBag(
                self.rows,
                self.dim,
                mode="sum",
                sparse=not self.copied,
                device="cuda",
                dtype=_TYPES.get(table.get("type", "fp32"), torch.float32),
            )

    def lookup(self) -> torch.Tensor | None:
        """The results of the samples that this rank looks up."""
        samples = self.batch if self.copied else self.batch * self.ranks
        indices = self._indices(samples) if self.copied else self._received()
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
    """Results to the samples' ranks, and gradients back; sizes by rank of a group."""

    @staticmethod
    def forward(
        ctx: Any, results: torch.Tensor, received: list[int], sent: list[int], group: Any
    ) -> Any:
        ctx.exchange = received, sent, group
        output = torch.empty(sum(received), device="cuda")
        dist.all_to_all_single(output, results, received, sent, group)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        received, sent, group = ctx.exchange
        output = torch.empty(sum(sent), device="cuda")
        dist.all_to_all_single(output, gradients[0].contiguous(), sent, received, group)
        return output, None, None, None


class Scatter(torch.autograd.Function):  # type: ignore[misc]
    """Sums of a group's parts, each rank's samples to it, and gradients back."""

    @staticmethod
    def forward(ctx: Any, results: torch.Tensor, group: Any) -> Any:
        ctx.group = group
        output = torch.empty(results.numel() // dist.get_world_size(group), device="cuda")
        dist.reduce_scatter_tensor(output, results, group=group)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ranks = dist.get_world_size(ctx.group)
        output = torch.empty(gradients[0].numel() * ranks, device="cuda")
        dist.all_gather_into_tensor(output, gradients[0].contiguous(), group=ctx.group)
        return output, None


class Level:
    """Tables whose rows so many ranks share: results are summed among these, and exchanged among
    those that have the same samples then, which are at the same place of all such groups.
    """

    def __init__(self, split: int, shards: list[Shard], batch: int) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.shards = shards
        self.within = _group([range(one, one + split) for one in range(0, ranks, split)])
        self.across = _group([range(one, ranks, split) for one in range(split)])
        peers = range(rank % split, ranks, split)
        self.received = [
            batch * sum(one.dim * one.owners.count(p) for one in shards) for p in peers
        ]
        self.own = self.received[rank // split]

    def results(self, found: list[torch.Tensor]) -> torch.Tensor:
        """Of this rank's samples, from what it looked up."""
        results = torch.cat(found) if found else torch.zeros(0, device="cuda", requires_grad=True)
        if self.within is not None and found:
            results = Scatter.apply(results, self.within)
        if self.across is not None:
            sent = [self.own] * len(self.received)
            results = Exchange.apply(results, self.received, sent, self.across)
        return results


def _group(subsets: list[range]) -> Any:
    """This rank's group of these; None of ranks that are alone."""
    if len(subsets[0]) == 1:
        return None
    if len(subsets) == 1:
        return dist.group.WORLD
    return dist.new_subgroups_by_enumeration([list(one) for one in subsets])[0]


def iterate(shards: list[Shard], levels: list[Level]) -> None:
    """Forward and backward of all tables."""
    found = {one: got.flatten() for one in shards if (got := one.lookup()) is not None}
    copies = [shard for shard in shards if shard.copied]
    outputs = [found[shard] for shard in copies]
    for level in levels:
        outputs.append(level.results([found[one] for one in level.shards if one in found]))
    torch.cat(outputs).sum().backward()
    for shard in copies:
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
    parted = [shard for shard in shards if not shard.copied]
    levels = [
        Level(split, [shard for shard in parted if shard.split == split], int(batch))
        for split in sorted({shard.split for shard in parted})
    ]
    weights = [shard.bag.weight for shard in shards if shard.mine]
    optimizer = torch.optim.SGD(weights or [torch.zeros(1, requires_grad=True)], lr=0.01)
    for _ in range(int(iterations)):
        optimizer.zero_grad()
        iterate(shards, levels)
        optimizer.step()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
