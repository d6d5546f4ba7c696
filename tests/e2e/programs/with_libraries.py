"""Short trainings with libraries of others, each of which prints how long an iteration takes by its
own clock: `with_libraries.py LIBRARY`. The libraries are on one GPU, or on two with torchrun.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

STEPS = 6
Loss = Callable[[], torch.Tensor]


def x_transformers() -> tuple[nn.Module, Loss]:
    """A decoder of texts."""
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper  # noqa: PLC0415

    layers = Decoder(dim=256, depth=2, heads=4, rotary_pos_emb=True)
    model = TransformerWrapper(num_tokens=256, max_seq_len=256, attn_layers=layers)
    decoder = AutoregressiveWrapper(model).cuda()
    return decoder, lambda: decoder(torch.randint(0, 256, (8, 257), device="cuda"))


def vit_pytorch() -> tuple[nn.Module, Loss]:
    """A transformer of images; the program looks how often it is right."""
    from vit_pytorch import ViT  # noqa: PLC0415

    sizes = {"image_size": 64, "patch_size": 8, "dim": 256, "mlp_dim": 512}
    model = ViT(num_classes=10, depth=2, heads=4, **sizes).cuda()

    def loss() -> torch.Tensor:
        found = model(torch.randn(32, 3, 64, 64, device="cuda"))
        classes = torch.randint(0, 10, (32,), device="cuda")
        print(f"right {int((found.argmax(1) == classes).sum())}")
        return nn.functional.cross_entropy(found, classes)

    return model, loss


def torch_geometric() -> tuple[nn.Module, Loss]:
    """Three kinds of convolutions on a random graph, of which 20,000 edges are expected."""
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv  # noqa: PLC0415
    from torch_geometric.utils import erdos_renyi_graph  # noqa: PLC0415

    torch.manual_seed(0)
    edges = erdos_renyi_graph(2000, 0.005).cuda()
    features = torch.randn(2000, 64, device="cuda")
    layers = nn.ModuleList([GCNConv(64, 64), GATConv(64, 16, heads=4), SAGEConv(64, 7)]).cuda()

    def loss() -> torch.Tensor:
        values = features
        for layer in layers:
            values = layer(values, edges)
        return values.square().mean()

    print(f"edges {edges.shape[1]}")
    return layers, loss


def fairscale() -> tuple[nn.Module, Loss]:
    """Parameters that are shared out."""
    from fairscale.nn.data_parallel import FullyShardedDataParallel  # noqa: PLC0415

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(6))).cuda()
    model = FullyShardedDataParallel(layers)
    return model, lambda: model(torch.randn(256, 512, device="cuda")).square().mean()


def bitsandbytes() -> tuple[nn.Module, Loss]:
    """Linear layers of eight bits, which look for outliers, and those that keep their weights."""
    from bitsandbytes.nn import Linear8bitLt  # noqa: PLC0415

    layers = nn.Sequential(
        Linear8bitLt(256, 1024, has_fp16_weights=False),
        nn.ReLU(),
        Linear8bitLt(1024, 256, has_fp16_weights=True, threshold=6.0),
    )
    model = layers.half().cuda()
    model[0].bias.requires_grad_(True)
    return model, lambda: model(torch.randn(4096, 256, device="cuda").half()).square().mean()


def fla() -> tuple[nn.Module, Loss]:
    """A language model of gated delta rules, by kernels of Triton that are tuned before."""
    from fla.models import GatedDeltaNetConfig, GatedDeltaNetForCausalLM  # noqa: PLC0415

    sizes = {"hidden_size": 256, "num_heads": 2, "head_dim": 64, "num_hidden_layers": 2}
    model = GatedDeltaNetForCausalLM(GatedDeltaNetConfig(vocab_size=1024, **sizes))
    model = model.cuda().to(torch.bfloat16)

    def loss() -> torch.Tensor:
        ids = torch.randint(0, 1024, (2, 256), device="cuda")
        found: torch.Tensor = model(input_ids=ids, labels=ids).loss
        return found

    return model, loss


WITH = (x_transformers, vit_pytorch, torch_geometric, fairscale, bitsandbytes, fla)
LIBRARIES = {one.__name__: one for one in WITH}


def main() -> None:
    model, loss = LIBRARIES[sys.argv[1]]()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        torch.cuda.synchronize()
        begin_s = time.perf_counter()
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        print(f"iteration {time.perf_counter() - begin_s:.9f} s", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
