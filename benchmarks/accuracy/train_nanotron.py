"""Train a Llama on tensor-, pipeline- and data-parallel ranks, as nanotron did it for the published
runs of its playbook.

    phantora run -- torchrun --nproc-per-node 8 benchmarks/accuracy/train_nanotron.py --tp 2 --pp 2

Facts are from huggingface/nanotron (scripts/scaling_benchmarks.py,
examples/config_tiny_llama_bench.yaml and the modules that `sharded_layers`, `sharded_llama`,
`pipeline` and `fp32_gradients` name): tensor-parallel ranks are neighbours, then data-parallel
ones, and stages lie furthest apart; CUDA_DEVICE_MAX_CONNECTIONS=1, no recomputation; every step
ends for all ranks together (trainer.py).
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from fp32_gradients import Fp32Gradients
from pipeline import Channel, Line, Schedule
from sharded_llama import SHAPES, VOCABULARY, Stage, blocks_of
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


def pipeline_line(mesh: DeviceMesh, device: torch.device) -> Line:
    """The rank's place, with a communicator for either direction."""
    again = None
    for ranks in mesh.mesh.flatten(1).t().tolist():
        group = dist.new_group(ranks)
        again = group if dist.get_rank() in ranks else again
    assert again is not None
    return Line(Channel(mesh.get_group("pp"), 1, device), Channel(again, -1, device))


def model_group(mesh: DeviceMesh) -> dist.ProcessGroup:
    """The ranks that have a model between them."""
    own = None
    for replica in range(mesh.mesh.shape[1]):
        ranks = mesh.mesh[:, replica].flatten().tolist()
        group = dist.new_group(ranks)
        own = group if dist.get_rank() in ranks else own
    assert own is not None
    return own


def tied_group(mesh: DeviceMesh, stages: list[int]) -> dist.ProcessGroup | None:
    """The ranks of the two stages that have the embedding; None on others."""
    own = None
    for ranks in mesh.mesh[stages].flatten(1).t().tolist():
        group = dist.new_group(ranks)
        own = group if dist.get_rank() in ranks else own
    return own


def main() -> None:
    """Train for the given number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SHAPES, default="1B")
    for axis in ("dp", "tp", "pp"):
        parser.add_argument(f"--{axis}", type=int, default=1)
    parser.add_argument("--zero", type=int, choices=(0, 1), default=0)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=1, help="sequences per micro-batch")
    parser.add_argument("--accumulate", type=int, default=8, help="micro-batches per step")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    mesh = init_device_mesh(
        "cuda", (options.pp, options.dp, options.tp), mesh_dim_names=("pp", "dp", "tp")
    )
    shape = SHAPES[options.model]
    blocks = blocks_of(shape, options.pp)
    line = pipeline_line(mesh, device)
    models = model_group(mesh)
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16)
        stage = Stage(shape, blocks[line.stage], mesh.get_group("tp"))
        torch.set_default_dtype(torch.float)
    head = next(place for place, part in enumerate(blocks) if "head" in part)
    ties = tied_group(mesh, [0, head]) if shape.tied and head > 0 else None
    zero = options.zero == 1 and options.dp > 1
    gradients = Fp32Gradients(stage, mesh.get_group("dp"), zero)
    torch.cuda.empty_cache()

    for step in range(options.steps):
        size = (options.accumulate, options.batch, options.sequence + 1)
        tokens = torch.randint(VOCABULARY, size, device=device)
        schedule = Schedule(line, stage, gradients, options.accumulate)
        schedule.run([(part[:, :-1].contiguous(), part[:, 1:]) for part in tokens])
        gradients.reduce()
        tied = stage.tied_weight()
        if ties is not None and tied is not None:
            dist.all_reduce(gradients.of(tied), group=ties)
        if options.tp > 1:
            for copy in stage.copies():
                dist.all_reduce(gradients.of(copy), group=mesh.get_group("tp"))
        gradients.step(models)
        if stage.loss:
            loss = torch.stack(schedule.losses).sum()
            dist.all_reduce(loss, dist.ReduceOp.AVG, group=mesh.get_group("dp"))
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
        dist.barrier()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
