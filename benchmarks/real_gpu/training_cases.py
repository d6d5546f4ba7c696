"""Training steps by name: models of several fields, in eager mode and compiled, small and large."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from gpt import Gpt, GptConfig
from llama import Llama, LlamaConfig

Step = Callable[[], object]


def steps(
    model: nn.Module,
    loss_of: Callable[[nn.Module], Tensor],
    *,
    number: torch.dtype | None = torch.bfloat16,
    optimizer: torch.optim.Optimizer | None = None,
    clip: bool = False,
) -> Step:
    """One step of AdamW, under autocast if a type is named."""
    chosen = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        with torch.autocast("cuda", dtype=number or torch.bfloat16, enabled=number is not None):
            loss = loss_of(model)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        chosen.zero_grad()

    return step


def tokens(vocabulary: int, batch: int, length: int) -> Tensor:
    return torch.randint(vocabulary, (batch, length), device="cuda")


def gpt(batch: int, *, compiled: bool = False, fused: bool = True, **shape: int) -> Step:
    """The examples' GPT, GPT-2 small if no shape is told."""
    config = GptConfig(**shape)
    model: Any = Gpt(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
    if compiled:
        model = torch.compile(model)
    given = tokens(config.vocabulary, batch, config.sequence)
    return steps(model, lambda m: m(given, given), optimizer=optimizer, clip=True)


def llama(batch: int, *, number: torch.dtype | None = torch.bfloat16, **shape: int) -> Step:
    """The examples' Llama in bf16 parameters."""
    config = LlamaConfig(**shape)
    model = Llama(config).cuda().to(torch.bfloat16)
    model.initialise()
    given = tokens(config.vocabulary, batch, config.sequence)

    def loss_of(m: nn.Module) -> Tensor:
        return functional.cross_entropy(m(given).flatten(0, 1).float(), given.flatten())

    return steps(model, loss_of, number=None)


def hugging_face(
    kind: str,
    batch: int,
    length: int,
    *,
    number: torch.dtype | None = torch.bfloat16,
    compiled: bool = False,
    recomputed: bool = False,
    **shape: Any,
) -> Step:
    """A language model of transformers by the name of its classes, random weights."""
    import transformers  # noqa: PLC0415

    config = getattr(transformers, f"{kind}Config")(**shape)
    suffix = "ForMaskedLM" if kind == "Bert" else "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    if kind == "T5":
        suffix = "ForConditionalGeneration"
    model: Any = getattr(transformers, f"{kind}{suffix}")(config).cuda()
    if recomputed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if compiled:
        model = torch.compile(model)
    given = tokens(config.vocab_size, batch, length)
    return steps(
        model, lambda m: m(input_ids=given, labels=given).loss, number=number, optimizer=optimizer
    )


def vision(
    name: str,
    batch: int,
    *,
    number: torch.dtype | None = None,
    last: bool = False,
    compiled: bool = False,
) -> Step:
    """A classifier of torchvision."""
    import torchvision  # noqa: PLC0415

    model: Any = getattr(torchvision.models, name)().cuda()
    images = torch.randn(batch, 3, 224, 224, device="cuda")
    if last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    if compiled:
        model = torch.compile(model)
    labels = torch.randint(1000, (batch,), device="cuda")
    return steps(
        model,
        lambda m: functional.cross_entropy(m(images), labels),
        number=number,
        optimizer=optimizer,
    )


def recommender(batch: int) -> Step:
    """DLRM's shape: dense features, 26 tables of one index, interaction, one output."""

    class Dlrm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(
                nn.EmbeddingBag(200_000, 64, mode="sum", sparse=False) for _ in range(26)
            )
            self.bottom = nn.Sequential(
                *(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()),
                nn.Linear(256, 64),
            )
            self.top = nn.Sequential(
                *(nn.Linear(64 + 27 * 26 // 2, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()),
                nn.Linear(256, 1),
            )
            self.register_buffer("lower", torch.tril_indices(27, 27, -1))

        def forward(self, dense: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
            bottom = self.bottom(dense)
            looked_up = [table(indices[i], offsets) for i, table in enumerate(self.tables)]
            features = torch.stack([bottom, *looked_up], 1)
            products = features @ features.transpose(1, 2)
            pairs = products[:, self.lower[0], self.lower[1]]
            return self.top(torch.cat((bottom, pairs), 1)).squeeze(1)

    model = Dlrm().cuda()
    dense = torch.randn(batch, 13, device="cuda")
    indices = torch.randint(200_000, (26, batch), device="cuda")
    offsets, labels = torch.arange(batch, device="cuda"), torch.rand(batch, device="cuda").round()
    return steps(
        model,
        lambda m: functional.binary_cross_entropy_with_logits(m(dense, indices, offsets), labels),
        number=None,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )


def recurrent(batch: int) -> Step:
    """A word language model: two LSTM layers."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(33278, 650)
            self.network = nn.LSTM(650, 650, 2, dropout=0.2)
            self.head = nn.Linear(650, 33278)

        def forward(self, given: Tensor) -> Tensor:
            return self.head(self.network(self.words(given))[0])

    model = Words().cuda()
    given = tokens(33278, 35, batch)
    return steps(
        model,
        lambda m: functional.cross_entropy(m(given).flatten(0, 1), given.flatten()),
        number=None,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
    )


def tiny_network() -> Step:
    """Small layers, one after the other: what the host takes."""
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(50)]).cuda()
    x = torch.randn(32, 256, device="cuda")
    return steps(model, lambda m: m(x).square().mean(), number=None)


def graph_of(step: Callable[[], Step]) -> Step:
    """A forward and backward pass as a CUDA graph."""
    made = step()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            made()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made()
    return graph.replay


def inference(batch: int) -> Step:
    """Inference of a Llama, no gradients."""
    config = LlamaConfig(
        layers=16, heads=32, key_value_heads=8, width=2048, hidden=8192, sequence=2048
    )
    model = Llama(config).cuda().to(torch.bfloat16)
    model.initialise()
    given = tokens(config.vocabulary, batch, config.sequence)

    @torch.no_grad()
    def step() -> object:
        return model(given)

    return step


LLAMA_1B = dict(layers=16, heads=32, key_value_heads=8, width=2048, hidden=8192, vocabulary=128256)
HF_LLAMA = dict(
    hidden_size=2048,
    intermediate_size=5632,
    num_hidden_layers=22,
    num_attention_heads=32,
    num_key_value_heads=4,
    vocab_size=32000,
)
HALF = torch.float16
BF16 = torch.bfloat16

CASES: dict[str, Callable[[], Step]] = {
    "tiny network": tiny_network,
    "gpt2 batch 1": partial(gpt, 1),
    "gpt2 batch 8": partial(gpt, 8),
    "gpt2 batch 32": partial(gpt, 32),
    "gpt2 batch 8 loop": partial(gpt, 8, fused=False),
    "gpt2 medium batch 8": partial(gpt, 8, layers=24, heads=16, width=1024),
    "gpt2 large batch 4": partial(gpt, 4, layers=36, heads=20, width=1280),
    "llama 1b 1x2048": partial(llama, 1, sequence=2048, **LLAMA_1B),
    "llama 1b 2x4096": partial(llama, 2, sequence=4096, **LLAMA_1B),
    "llama 7b 4 layers 1x4096": partial(llama, 1, layers=4),
    "llama 7b 4 layers 4x2048": partial(llama, 4, layers=4, sequence=2048),
    "llama 1b inference 4x2048": partial(inference, 4),
    "hf gpt2 4x512": partial(hugging_face, "GPT2", 4, 512),
    "hf gpt2 4x512 f32": partial(hugging_face, "GPT2", 4, 512, number=None),
    "hf gpt2 16x1024": partial(hugging_face, "GPT2", 16, 1024),
    "hf gpt2 16x1024 recomputed": partial(hugging_face, "GPT2", 16, 1024, recomputed=True),
    "hf bert 32x128": partial(hugging_face, "Bert", 32, 128),
    "hf bert 32x512": partial(hugging_face, "Bert", 32, 512),
    "hf bert 32x128 f32": partial(hugging_face, "Bert", 32, 128, number=None),
    "hf llama 1b 2x2048": partial(hugging_face, "Llama", 2, 2048, **HF_LLAMA),
    "hf t5 16x256": partial(
        hugging_face,
        "T5",
        16,
        256,
        d_model=768,
        d_ff=3072,
        num_layers=12,
        num_heads=12,
        decoder_start_token_id=0,
    ),
    "hf mixtral 4x1024": partial(
        hugging_face,
        "Mixtral",
        4,
        1024,
        hidden_size=1024,
        intermediate_size=3584,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=4,
        num_local_experts=8,
        vocab_size=32000,
    ),
    "resnet50 64 f32": partial(vision, "resnet50", 64),
    "resnet50 256 f32": partial(vision, "resnet50", 256),
    "resnet50 256 bf16 last": partial(vision, "resnet50", 256, number=BF16, last=True),
    "resnet50 256 f16": partial(vision, "resnet50", 256, number=HALF),
    "vit_b_16 64 bf16": partial(vision, "vit_b_16", 64, number=BF16),
    "convnext_tiny 64 bf16 last": partial(vision, "convnext_tiny", 64, number=BF16, last=True),
    "efficientnet_b0 128 bf16 last": partial(
        vision, "efficientnet_b0", 128, number=BF16, last=True
    ),
    "mobilenet_v2 128 f32": partial(vision, "mobilenet_v2", 128),
    "vgg16 64 bf16": partial(vision, "vgg16", 64, number=BF16),
    "swin_t 64 bf16": partial(vision, "swin_t", 64, number=BF16),
    "dlrm 2048": partial(recommender, 2048),
    "dlrm 32768": partial(recommender, 32768),
    "lstm 20": partial(recurrent, 20),
    "lstm 256": partial(recurrent, 256),
    "gpt2 batch 8 graph": lambda: graph_of(lambda: _graphable(8)),
    "gpt2 batch 8 compiled": partial(gpt, 8, compiled=True),
    "hf llama 1b 2x2048 compiled": partial(
        hugging_face, "Llama", 2, 2048, compiled=True, **HF_LLAMA
    ),
    "resnet50 256 bf16 last compiled": partial(
        vision, "resnet50", 256, number=BF16, last=True, compiled=True
    ),
}


def _graphable(batch: int) -> Step:
    """Forward and backward of GPT-2; its gradients stay where they are."""
    config = GptConfig()
    model = Gpt(config).cuda()
    given = tokens(config.vocabulary, batch, config.sequence)

    def step() -> None:
        with torch.autocast("cuda", dtype=BF16, cache_enabled=False):
            loss = model(given, given)
        model.zero_grad()
        loss.backward()

    return step
