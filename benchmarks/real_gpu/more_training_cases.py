"""Training steps that `training_cases` lacks: measured after the models had been fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from training_cases import BF16, HALF, Step, gpt, hugging_face, llama, steps, vision

LABELS = 1000


def of_transformers(
    name: str,
    make: Callable[[Any], dict[str, Tensor]],
    shape: Mapping[str, Any] | None = None,
    *,
    number: torch.dtype | None = BF16,
) -> Step:
    """A model of transformers with random weights; `make` gives its inputs."""
    import transformers  # noqa: PLC0415

    kind = getattr(transformers, name)
    config = kind.config_class(**(shape or {}))
    model: Any = kind(config).cuda()
    model.train()
    given = make(config)
    # Neither fused nor a list at a time: one parameter after the other.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=False)
    return steps(model, lambda m: m(**given).loss, number=number, optimizer=optimizer)


def words(batch: int, length: int) -> Callable[[Any], dict[str, Tensor]]:
    """Tokens that are their own labels."""

    def make(config: Any) -> dict[str, Tensor]:
        given = torch.randint(config.vocab_size, (batch, length), device="cuda")
        return {"input_ids": given, "labels": given}

    return make


def pictures(batch: int, size: int = 224) -> Callable[[Any], dict[str, Tensor]]:
    """Images and what they show."""
    return lambda config: {
        "pixel_values": torch.randn(batch, 3, size, size, device="cuda"),
        "labels": torch.zeros(batch, dtype=torch.long, device="cuda"),
    }


def speech(batch: int, bins: int, length: int, words: int) -> Callable[[Any], dict[str, Tensor]]:
    """Spectra and a text."""
    return lambda config: {
        "input_features": torch.randn(batch, bins, length, device="cuda"),
        "labels": torch.randint(config.vocab_size, (batch, words), device="cuda"),
    }


def video(batch: int, *, number: torch.dtype | None) -> Step:
    """Three-dimensional convolutions."""
    import torchvision  # noqa: PLC0415

    model: Any = torchvision.models.video.r3d_18().cuda()
    clips = torch.randn(batch, 3, 16, 112, 112, device="cuda")
    labels = torch.randint(400, (batch,), device="cuda")
    return steps(model, lambda m: functional.cross_entropy(m(clips), labels), number=number)


def segmentation(batch: int, *, number: torch.dtype | None) -> Step:
    """Dilated convolutions, bilinear resizing, a label for each pixel."""
    import torchvision  # noqa: PLC0415

    make = torchvision.models.segmentation.deeplabv3_resnet50
    model: Any = make(weights=None, weights_backbone=None, num_classes=21).cuda()
    images = torch.randn(batch, 3, 512, 512, device="cuda")
    labels = torch.randint(21, (batch, 512, 512), device="cuda")
    return steps(model, lambda m: functional.cross_entropy(m(images)["out"], labels), number=number)


class Block(nn.Module):
    """Of a U-shaped network: norms by group, convolutions and what is added to them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.time = nn.Linear(512, outputs)
        self.second = nn.Sequential(
            nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        self.past = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.first(x) + self.time(time)[:, :, None, None]
        result: Tensor = self.past(x) + self.second(hidden)
        return result


class UNet(nn.Module):
    """Of a diffusion model, with attention at the bottom."""

    def __init__(self, widths: tuple[int, ...] = (128, 256, 512)) -> None:
        super().__init__()
        self.begin = nn.Conv2d(3, widths[0], 3, padding=1)
        pairs = list(zip((widths[0], *widths), widths, strict=False))
        self.down = nn.ModuleList(Block(a, b) for a, b in pairs)
        self.attention = nn.MultiheadAttention(widths[-1], 8, batch_first=True)
        self.up = nn.ModuleList(Block(2 * b, a) for a, b in reversed(pairs))
        self.end = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        x, kept = self.begin(x), []
        for block in self.down:
            x = block(x, time)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        flat = x.flatten(2).transpose(1, 2)
        flat = flat + self.attention(flat, flat, flat, need_weights=False)[0]
        x = flat.transpose(1, 2).reshape(x.shape)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2)
            x = block(torch.cat((x, kept.pop()), 1), time)
        result: Tensor = self.end(x)
        return result


def diffusion(batch: int, *, number: torch.dtype | None) -> Step:
    """A step of a diffusion model that predicts noise."""
    images, time = torch.randn(batch, 3, 64, 64, device="cuda"), torch.randn(batch, 512).cuda()

    def loss_of(model: nn.Module) -> Tensor:
        noise = torch.randn_like(images)
        return functional.mse_loss(model(images + noise, time), noise)

    return steps(UNet().cuda(), loss_of, number=number)


def adversarial(batch: int) -> Step:
    """DCGAN's generator through its discriminator."""

    def turned(inputs: int, outputs: int, stride: int, pad: int) -> nn.Module:
        layer = nn.ConvTranspose2d(inputs, outputs, 4, stride, pad, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU(True))

    def seen(inputs: int, outputs: int) -> nn.Module:
        layer = nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, True))

    model = nn.Sequential(
        *(turned(100, 512, 1, 0), turned(512, 256, 2, 1), turned(256, 128, 2, 1)),
        *(turned(128, 64, 2, 1), nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()),
        *(seen(3, 64), seen(64, 128), seen(128, 256), seen(256, 512), nn.Conv2d(512, 1, 4)),
    ).cuda()
    noise, ones = torch.randn(batch, 100, 1, 1, device="cuda"), torch.ones(batch, device="cuda")
    return steps(
        model,
        lambda m: functional.binary_cross_entropy_with_logits(m(noise).flatten(), ones),
        number=None,
    )


class Convolution(nn.Module):
    """Of a graph: sums over neighbours."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = self.layer(x)
        return torch.zeros_like(hidden).index_add(0, edges[1], hidden[edges[0]])


def graph_network(nodes: int, edges: int) -> Step:
    """Three convolutions over a graph of random edges."""
    layers = nn.ModuleList(Convolution(*pair) for pair in ((100, 256), (256, 256), (256, 47)))
    layers = layers.cuda()
    x, labels = torch.randn(nodes, 100).cuda(), torch.randint(47, (nodes,)).cuda()
    links = torch.randint(nodes, (2, edges)).cuda()

    def loss_of(model: Any) -> Tensor:
        hidden = x
        for number, layer in enumerate(model):
            hidden = layer(hidden, links)
            if number < 2:
                hidden = functional.dropout(hidden.relu(), 0.5)
        return functional.cross_entropy(hidden, labels)

    return steps(layers, loss_of, number=None)


def translation(batch: int, *, number: torch.dtype | None) -> Step:
    """PyTorch's own Transformer, base size, in f32 or under autocast."""
    model = nn.ModuleDict(
        {
            "words": nn.Embedding(37000, 512),
            "body": nn.Transformer(512, 8, 6, 6, 2048, batch_first=True),
            "head": nn.Linear(512, 37000),
        }
    ).cuda()
    source, target = (torch.randint(37000, (batch, 64)).cuda() for _ in range(2))
    later = nn.Transformer.generate_square_subsequent_mask(64, device="cuda")

    def loss_of(m: Any) -> Tensor:
        hidden = m["body"](m["words"](source), m["words"](target), tgt_mask=later)
        return functional.cross_entropy(m["head"](hidden).flatten(0, 1), target.flatten())

    return steps(model, loss_of, number=number)


def perceptron(batch: int) -> Step:
    """Wide layers of a tabular model."""
    widths = (512, 4096, 4096, 4096, 16)
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        parts += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU(), nn.Dropout(0.1)]
    x, y = torch.randn(batch, 512).cuda(), torch.randn(batch, 16).cuda()
    return steps(nn.Sequential(*parts).cuda(), lambda m: functional.mse_loss(m(x), y), number=None)


SMALL = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16}
SMALL_4 = SMALL | {"intermediate_size": 4096}
WHISPER_SMALL = {
    "d_model": 768,
    **{f"{part}_layers": 12 for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": 12 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 3072 for part in ("encoder", "decoder")},
}
MORE_CASES: dict[str, Callable[[], Step]] = {
    "densenet121 64 f32": partial(vision, "densenet121", 64),
    "densenet121 64 bf16 last": partial(vision, "densenet121", 64, number=BF16, last=True),
    "regnet_y_3_2gf 64 bf16 last": partial(vision, "regnet_y_3_2gf", 64, number=BF16, last=True),
    "resnext50 64 f32": partial(vision, "resnext50_32x4d", 64),
    "wide_resnet50 64 f16": partial(vision, "wide_resnet50_2", 64, number=HALF),
    "shufflenet 256 f32": partial(vision, "shufflenet_v2_x1_0", 256),
    "mnasnet 128 bf16 last": partial(vision, "mnasnet1_0", 128, number=BF16, last=True),
    "mobilenet_v3 128 bf16": partial(vision, "mobilenet_v3_large", 128, number=BF16),
    "resnet18 256 bf16 last": partial(vision, "resnet18", 256, number=BF16, last=True),
    "resnet152 32 f32": partial(vision, "resnet152", 32),
    "convnext_base 32 f32": partial(vision, "convnext_base", 32),
    "vit_l_16 32 bf16": partial(vision, "vit_l_16", 32, number=BF16),
    "alexnet 256 f32": partial(vision, "alexnet", 256),
    "r3d_18 8 f32": partial(video, 8, number=None),
    "r3d_18 8 bf16": partial(video, 8, number=BF16),
    "deeplabv3 8 bf16": partial(segmentation, 8, number=BF16),
    "deeplabv3 8 f32": partial(segmentation, 8, number=None),
    "diffusion 32 bf16": partial(diffusion, 32, number=BF16),
    "diffusion 32 f32": partial(diffusion, 32, number=None),
    "dcgan 128": partial(adversarial, 128),
    "graph network": partial(graph_network, 200_000, 2_000_000),
    "translation 64 f32": partial(translation, 64, number=None),
    "translation 64 bf16": partial(translation, 64, number=BF16),
    "perceptron 8192": partial(perceptron, 8192),
    "opt 8x1024": partial(of_transformers, "OPTForCausalLM", words(8, 1024)),
    "qwen2 4x2048": partial(
        of_transformers,
        "Qwen2ForCausalLM",
        words(4, 2048),
        SMALL | {"num_key_value_heads": 4, "intermediate_size": 2816, "vocab_size": 50_000},
    ),
    "gemma 4x1024": partial(
        of_transformers,
        "GemmaForCausalLM",
        words(4, 1024),
        SMALL
        | {"num_key_value_heads": 4, "head_dim": 256}
        | {"intermediate_size": 4096, "vocab_size": 64_000},
    ),
    "gpt_neox 4x2048 f32": partial(
        of_transformers, "GPTNeoXForCausalLM", words(4, 2048), SMALL_4, number=None
    ),
    "phi 4x1024": partial(of_transformers, "PhiForCausalLM", words(4, 1024), SMALL_4),
    "roberta 64x256": partial(of_transformers, "RobertaForMaskedLM", words(64, 256)),
    "distilbert 64x128 f32": partial(
        of_transformers, "DistilBertForMaskedLM", words(64, 128), number=None
    ),
    "electra 64x128": partial(of_transformers, "ElectraForMaskedLM", words(64, 128)),
    "deberta 16x256": partial(of_transformers, "DebertaV2ForMaskedLM", words(16, 256), SMALL),
    "bart 8x512": partial(of_transformers, "BartForConditionalGeneration", words(8, 512)),
    "whisper small 8": partial(
        of_transformers, "WhisperForConditionalGeneration", speech(8, 80, 3000, 128), WHISPER_SMALL
    ),
    "hf vit 64 f32": partial(
        of_transformers, "ViTForImageClassification", pictures(64), number=None
    ),
    "segformer 16": partial(of_transformers, "SegformerForImageClassification", pictures(16, 512)),
    "swinv2 32": partial(of_transformers, "Swinv2ForImageClassification", pictures(32)),
    "gpt2 xl 4 layers batch 8": partial(gpt, 8, layers=4, heads=25, width=1600),
    "llama 13b 2 layers 2x4096": partial(llama, 2, layers=2, width=5120, heads=40, sequence=4096),
    "hf gpt2 1x128": partial(hugging_face, "GPT2", 1, 128),
}
