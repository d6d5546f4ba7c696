"""TorchRec: embedding bags sharded as the argument says, trained with a fused optimizer.

Every rank prints whether the pooled lengths that it got after the exchange are those of all ranks'
inputs, which it computes on its own.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torchrec
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.sharding_plan import (
    column_wise,
    construct_module_sharding_plan,
    data_parallel,
    row_wise,
    table_wise,
)
from torchrec.distributed.types import ShardingPlan
from torchrec.optim import RowWiseAdagrad
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

TABLES, BATCH, DIM, ROWS, STEPS = 4, 64, 64, 10_000, 6
FEATURES = [f"f{number}" for number in range(TABLES)]
WAYS: dict[str, Callable[[int, int], Any]] = {
    "table_wise": lambda number, ranks: table_wise(rank=number % ranks),
    "row_wise": lambda number, ranks: row_wise(),
    "column_wise": lambda number, ranks: column_wise(ranks=list(range(ranks))),
    "data_parallel": lambda number, ranks: data_parallel(),
}


class Model(torch.nn.Module):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        tables = [
            torchrec.EmbeddingBagConfig(
                name=f"t{number}",
                embedding_dim=DIM,
                num_embeddings=ROWS,
                feature_names=[feature],
            )
            for number, feature in enumerate(FEATURES)
        ]
        meta = torch.device("meta")
        self.bags = torchrec.EmbeddingBagCollection(device=meta, tables=tables)
        self.top = torch.nn.Linear(TABLES * DIM, 1, device=device)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        return self.top(self.bags(features).values())


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and lengths of a rank's features."""
    generator = torch.Generator().manual_seed(step * 1000 + rank)
    lengths = torch.randint(0, 5, (TABLES * BATCH,), generator=generator)
    return torch.randint(0, ROWS, (int(lengths.sum()),), generator=generator), lengths


def main() -> None:
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = Model(device)
    apply_optimizer_in_backward(RowWiseAdagrad, model.bags.parameters(), {"lr": 0.01})
    way = WAYS[sys.argv[1]]
    plan = construct_module_sharding_plan(
        model.bags,
        {f"t{number}": way(number, ranks) for number in range(TABLES)},
        local_size=ranks,
        world_size=ranks,
        device_type="cuda",
    )
    model = DistributedModelParallel(
        model,
        device=device,
        plan=ShardingPlan({"bags": plan}),
        sharders=[EmbeddingBagCollectionSharder()],
    )
    optimizer = torch.optim.SGD(model.module.top.parameters(), lr=0.1)
    for step in range(STEPS):
        model(features(rank, step)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if sys.argv[1] == "table_wise":
        check(model.module.bags, features(rank, STEPS), rank, ranks)


def features(rank: int, step: int) -> KeyedJaggedTensor:
    """A rank's batch on its GPU."""
    values, lengths = batch(rank, step)
    return KeyedJaggedTensor.from_lengths_sync(FEATURES, values, lengths).to("cuda")


def check(bags: torch.nn.Module, sent: KeyedJaggedTensor, rank: int, ranks: int) -> None:
    """What this rank's tables are asked for, of all ranks' samples, by way of the exchange."""
    context = bags.create_context()
    (received,) = bags.input_dist(context, sent).wait().wait()
    mine = [number for number in range(TABLES) if number % ranks == rank]
    inputs = [batch(other, STEPS) for other in range(ranks)]
    wanted = [
        int(lengths[number * BATCH : (number + 1) * BATCH].sum())
        for number in mine
        for _, lengths in inputs
    ]
    found = received.lengths().view(len(mine), ranks, BATCH).sum(-1).flatten().tolist()
    print("the exchange is", "right" if found == wanted else f"wrong: {found}, not {wanted}")


if __name__ == "__main__":
    main()
