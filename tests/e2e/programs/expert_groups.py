"""Experts in groups of ranks, each with room for as many tokens: `expert_groups.py RANKS [splits]`.

Groups of RANKS have all experts; beside each other they are data parallel. `splits`: the exchange
is told how many tokens go where, as where experts have no fixed room.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.nn.functional import all_to_all_single

WIDTH, EXPERTS, TOP, TOKENS, STEPS = 256, 8, 2, 512, 4


def main() -> None:
    size, given = int(sys.argv[1]), sys.argv[2:] == ["splits"]
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    shape = (dist.get_world_size() // size, size)
    mesh = init_device_mesh("cuda", shape, mesh_dim_names=("dp", "ep"))
    group = mesh.get_group("ep")
    router = nn.Linear(WIDTH, EXPERTS, bias=False).to(device)
    experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS // size)).to(device)
    optimizer = torch.optim.AdamW([*router.parameters(), *experts.parameters()])
    room = TOKENS * TOP // EXPERTS

    def exchange(tokens: torch.Tensor) -> torch.Tensor:
        splits = [len(tokens) // size] * size if given else None
        return all_to_all_single(torch.empty_like(tokens), tokens, splits, splits, group=group)

    for _ in range(STEPS):
        tokens = torch.randn(TOKENS, WIDTH, device=device)
        weights, chosen = router(tokens).softmax(dim=-1).topk(TOP, dim=-1)
        order = chosen.flatten().argsort(stable=True)[: EXPERTS * room]
        here = exchange(tokens[order // TOP]).view(size, len(experts), room, WIDTH).unbind(1)
        done = torch.stack([one(part) for one, part in zip(experts, here, strict=True)], 1)
        back = exchange(done.reshape(-1, WIDTH)) * weights.flatten()[order].unsqueeze(1)
        torch.zeros_like(tokens).index_add(0, order // TOP, back).square().mean().backward()
        dist.all_reduce(router.weight.grad)
        for parameter in experts.parameters():
            dist.all_reduce(parameter.grad, group=mesh.get_group("dp"))
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
