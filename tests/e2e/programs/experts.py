"""A mixture of experts over all ranks: top-k routing, split sizes read from the GPU."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single
from torch.nn.parallel import DistributedDataParallel

WIDTH, EXPERTS, TOP, TOKENS, STEPS = 256, 8, 2, 512, 4


class Experts(nn.Module):
    """Those of this rank, and the way of tokens to and from all."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks = dist.get_world_size()
        self.local = EXPERTS // self.ranks
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(self.local)
        )

    def forward(
        self, tokens: torch.Tensor, weights: torch.Tensor, chosen: torch.Tensor
    ) -> torch.Tensor:
        counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
        others = torch.empty_like(counts)
        dist.all_to_all_single(others, counts)
        sent = counts.view(self.ranks, self.local).sum(1).tolist()
        received = others.view(self.ranks, self.local).sum(1).tolist()

        order = chosen.flatten().argsort(stable=True)
        outgoing = tokens[order // TOP]
        incoming = tokens.new_empty(sum(received), WIDTH)
        incoming = all_to_all_single(incoming, outgoing, received, sent)

        expert_of = torch.arange(EXPERTS, device=tokens.device).remainder(self.local)
        expert_of = expert_of.repeat_interleave(others, output_size=sum(received))
        by_expert = expert_of.argsort(stable=True)
        each = others.view(self.ranks, self.local).sum(0).tolist()
        parts = incoming[by_expert].split(each)
        done = torch.cat([layer(part) for layer, part in zip(self.layers, parts, strict=True)])
        back = torch.empty_like(done).index_copy(0, by_expert, done)

        returned = all_to_all_single(torch.empty_like(outgoing), back, sent, received)
        scaled = returned * weights.flatten()[order].unsqueeze(1)
        return torch.zeros_like(tokens).index_add(0, order // TOP, scaled)


def main() -> None:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    router = nn.Linear(WIDTH, EXPERTS, bias=False).to(device)
    router = DistributedDataParallel(router, device_ids=[device.index])
    experts = Experts().to(device)
    optimizer = torch.optim.AdamW([*router.parameters(), *experts.parameters()])
    for _ in range(STEPS):
        tokens = torch.randn(TOKENS, WIDTH, device=device)
        weights, chosen = router(tokens).softmax(dim=-1).topk(TOP, dim=-1)
        load = torch.bincount(chosen.flatten(), minlength=EXPERTS).tolist()
        loss = experts(tokens, weights, chosen).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {dist.get_rank()}: loads {load}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
