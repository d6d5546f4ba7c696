"""TorchRec as its documentation has it: a plan of its planner under constraints, an optimizer fused
into the backward pass, TrainPipelineSparseDist.

    torchrec_pipeline.py bags|sequences|dlrm SHARDING_TYPE COMPUTE_KERNEL
    torchrec_pipeline.py bags|sequences|dlrm PLAN.json

Every rank prints whether its shards are asked for the rows that all ranks' samples have, which it
computes on its own, and how many steps the pipeline made.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchrec
from torchrec.distributed import DistributedModelParallel, TrainPipelineSparseDist
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.types import ShardingPlan
from torchrec.models.dlrm import DLRM
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor
from torchrec.streamable import Pipelineable

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
from torchrec_plan import read_plan

# Lengths of a batch are more than what copies carry by default.
TABLES, BATCH, DIM, ROWS, STEPS, DENSE = 4, 4096, 64, 10_000, 8, 13
FEATURES = [f"f{number}" for number in range(TABLES)]
SHARDERS: list[Any] = [EmbeddingBagCollectionSharder(), EmbeddingCollectionSharder()]


@dataclass
class Batch(Pipelineable):  # type: ignore[misc]
    """What the pipeline takes."""

    dense: torch.Tensor
    features: KeyedJaggedTensor
    labels: torch.Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> "Batch":
        parts = (self.dense, self.features, self.labels)
        return Batch(*(part.to(device=device, non_blocking=non_blocking) for part in parts))

    def record_stream(self, stream: torch.Stream) -> None:
        for part in (self.dense, self.features, self.labels):
            part.record_stream(stream)

    def pin_memory(self) -> "Batch":
        return Batch(self.dense.pin_memory(), self.features.pin_memory(), self.labels.pin_memory())


class Model(torch.nn.Module):  # type: ignore[misc]
    """Returns loss and outputs, as the pipeline wants."""

    def __init__(self, kind: str, device: torch.device) -> None:
        super().__init__()
        self.kind, meta = kind, torch.device("meta")
        if kind == "sequences":
            self.tables = torchrec.EmbeddingCollection(
                device=meta, tables=configs(torchrec.EmbeddingConfig)
            )
        else:
            bags = torchrec.EmbeddingBagCollection(
                device=meta, tables=configs(torchrec.EmbeddingBagConfig)
            )
            if kind == "dlrm":
                self.dlrm = DLRM(bags, DENSE, [32, DIM], [32, 1], device)
                return
            self.tables = bags
        self.top = torch.nn.Linear(DIM, 1, device=device)

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        if self.kind == "dlrm":
            out = self.dlrm(batch.dense, batch.features)
        elif self.kind == "bags":
            found = self.tables(batch.features)
            out = self.top(sum(found[feature] for feature in FEATURES))
        else:
            found = self.tables(batch.features)
            out = self.top(sum(found[one].to_padded_dense(4).sum(1) for one in FEATURES))
        out = out.squeeze(-1)
        return torch.nn.functional.binary_cross_entropy_with_logits(out, batch.labels), out


def configs(config: type) -> list[Any]:
    """One table for each feature."""
    return [
        config(name=f"t{n}", embedding_dim=DIM, num_embeddings=ROWS, feature_names=[feature])
        for n, feature in enumerate(FEATURES)
    ]


def batch(rank: int, step: int) -> Batch:
    """A rank's batch, on the host."""
    generator = torch.Generator().manual_seed(step * 1000 + rank)
    lengths = torch.randint(0, 5, (TABLES * BATCH,), generator=generator)
    values = torch.randint(0, ROWS, (int(lengths.sum()),), generator=generator)
    features = KeyedJaggedTensor.from_lengths_sync(FEATURES, values, lengths)
    labels = torch.randint(0, 2, (BATCH,), generator=generator).float()
    return Batch(torch.zeros(BATCH, DENSE), features, labels)


def batches(rank: int) -> Iterator[Batch]:
    for step in range(STEPS):
        yield batch(rank, step).pin_memory()


def make_plan(model: torch.nn.Module, sharding: str, kernel: str = "") -> ShardingPlan:
    """A file's, or that of TorchRec's planner, which may choose this type and kernel alone."""
    if not kernel:
        return read_plan(sharding)
    topology = Topology(
        world_size=dist.get_world_size(), local_world_size=get_local_size(), compute_device="cuda"
    )
    only = ParameterConstraints(
        sharding_types=[sharding], compute_kernels=[kernel], min_partition=32
    )
    planner = EmbeddingShardingPlanner(
        topology=topology,
        batch_size=BATCH,
        constraints={f"t{number}": only for number in range(TABLES)},
    )
    return planner.collective_plan(model, SHARDERS, dist.GroupMember.WORLD)


def main() -> None:
    kind, *sharding = sys.argv[1:]
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = Model(kind, device)
    path = "dlrm.sparse_arch.embedding_bag_collection" if kind == "dlrm" else "tables"
    tables = model.get_submodule(path)
    apply_optimizer_in_backward(torchrec.optim.RowWiseAdagrad, tables.parameters(), {"lr": 0.01})
    plan = make_plan(model, *sharding)
    model = DistributedModelParallel(model, device=device, plan=plan, sharders=SHARDERS)
    check(model.module.get_submodule(path), plan.plan[path])
    dense = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(model.named_parameters())),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.01),
    )
    optimizer = CombinedOptimizer([model.fused_optimizer, dense])
    train(TrainPipelineSparseDist(model, optimizer, device, execute_all_batches=True))


def train(pipeline: TrainPipelineSparseDist) -> None:
    """All batches."""
    iterator, steps = batches(dist.get_rank()), 0
    while True:
        try:
            pipeline.progress(iterator)
        except StopIteration:
            break
        steps += 1
    print(f"{steps} steps")


def check(tables: torch.nn.Module, plan: Any) -> None:
    """What this rank's shards are asked for, by way of the exchange."""
    if plan["t0"].sharding_spec is None:
        return
    rank, ranks = dist.get_rank(), dist.get_world_size()
    given = [batch(other, STEPS).features.to_dict() for other in range(ranks)]
    mine = batch(rank, STEPS).features.to("cuda")
    received = tables.input_dist(tables.create_context(), mine).wait().wait()
    found = sorted(row for one in received for row in one.values().tolist())
    wanted: list[int] = []
    for number, feature in enumerate(FEATURES):
        for shard in plan[f"t{number}"].sharding_spec.shards:
            if shard.placement.rank() != rank:
                continue
            first, rows = shard.shard_offsets[0], shard.shard_sizes[0]
            for features in given:
                asked = features[feature].values().tolist()
                wanted += [row - first for row in asked if first <= row < first + rows]
    print("the exchange is", "right" if found == sorted(wanted) else "wrong")


if __name__ == "__main__":
    main()
