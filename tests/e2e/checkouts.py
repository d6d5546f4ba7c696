"""Checkouts of programs that others publish, and the data that they want, made here."""

from __future__ import annotations

import json
import random
import shutil
import string
import struct
from pathlib import Path

import numpy
import pytest

# docs/programs.md says what came of these.
COMMITS = {
    "Megatron-LM": "55ac708251",
    "build-nanogpt": "6104ab1",
    "dlrm": "090956ee",
    "examples": "77f55b9",
    "nanoGPT": "3adf61e1",
    "pytorch-image-models": "aa4b5850",
    "torchtitan": "b5bcd76c6",
    "transformers": "v4.57.3",
}


class Sources:
    """The folder with checkouts that the caller names."""

    def __init__(self, folder: str | None, target: Path) -> None:
        self._folder = None if folder is None else Path(folder)
        self._target = target

    def copy(self, name: str) -> Path:
        """A copy of a checkout to run in: programs write beside their sources."""
        if self._folder is None or not (self._folder / name).is_dir():
            pytest.skip(
                f"no checkout of {name}: nox -s programs -- --sources DIR, with DIR/{name} "
                f"(tried with commit {COMMITS[name]})"
            )
        copy = self._target / name
        if not copy.exists():
            ignored = shutil.ignore_patterns(".git")
            shutil.copytree(self._folder / name, copy, ignore=ignored, symlinks=True)
        return copy


def make_text(characters: int) -> str:
    """Words of small letters in lines, always the same."""
    chosen = random.Random(1)
    words = [
        "".join(chosen.choices(string.ascii_lowercase, k=chosen.randint(2, 9))) for _ in range(2000)
    ]
    lines: list[str] = []
    while sum(len(line) for line in lines) < characters:
        lines.append(" ".join(chosen.choices(words, k=12)).capitalize() + ".\n")
    return "".join(lines)


def make_tokens(folder: Path) -> None:
    """What build-nanogpt downloads: tokens, questions, and a tokenizer of characters."""
    chosen = random.Random(1)
    (folder / "edu_fineweb10B").mkdir()
    for split in ("val", "train"):
        tokens = numpy.array(chosen.choices(range(50257), k=2_000_000), dtype=numpy.uint16)
        numpy.save(folder / "edu_fineweb10B" / f"{split}_000000.npy", tokens)
    (folder / "hellaswag").mkdir()
    question = {"ctx": "a b c", "label": 1, "endings": ["d e", "f", "g h i", "j k"]}
    (folder / "hellaswag" / "hellaswag_val.jsonl").write_text(f"{json.dumps(question)}\n" * 4)
    (folder / "tiktoken.py").write_text(
        "class Characters:\n"
        "    def encode(self, text): return [ord(one) for one in text]\n"
        "def get_encoding(name): return Characters()\n"
    )


def make_shards(folder: Path) -> None:
    """Tokens in llm.c's files, as modded-nanogpt downloads them: a header of 256 numbers before."""
    chosen = random.Random(1)
    folder.mkdir(parents=True)
    some = numpy.array(chosen.choices(range(50257), k=100_000), dtype=numpy.uint16)
    for name, count in (("train_000001", 4_400_000), ("val_000000", 10_490_000)):
        header = numpy.array([20240520, 1, count, *[0] * 253], dtype=numpy.int32)
        tokens = numpy.resize(some, count)
        (folder / f"fineweb_{name}.bin").write_bytes(header.tobytes() + tokens.tobytes())


def make_documents(file: Path) -> None:
    """A line of JSON for each."""
    text = make_text(200_000)
    pieces = [text[at : at + 1000] for at in range(0, len(text), 1000)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"text": piece}) + "\n" for piece in pieces))


def make_images(folder: Path, each: int) -> None:
    """So many of each of two classes, in the folders that torchvision's ImageFolder reads."""
    from PIL import Image  # noqa: PLC0415

    chosen = random.Random(1)
    for part in ("train", "val"):
        for kind in ("a", "b"):
            place = folder / part / kind
            place.mkdir(parents=True, exist_ok=True)
            for number in range(each):
                pixels = chosen.randbytes(96 * 96 * 3)
                Image.frombytes("RGB", (96, 96), pixels).save(place / f"{number}.png")


def make_digits(folder: Path) -> None:
    """Files of MNIST's format, as torchvision looks for them: noise, and labels in turn."""
    chosen = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 1280), ("t10k", 1000)):
        images = struct.pack(">4i", 2051, count, 28, 28) + chosen.randbytes(count * 28 * 28)
        labels = struct.pack(">2i", 2049, count) + bytes(one % 10 for one in range(count))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def make_model(folder: Path) -> None:
    """A small Qwen 2 with random weights, and its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: PLC0415
    from transformers import (  # noqa: PLC0415
        PreTrainedTokenizerFast,
        Qwen2Config,
        Qwen2ForCausalLM,
    )

    end = "<|end|>"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=[end])
    tokenizer.train_from_iterator(make_text(50_000).splitlines(), trainer)
    known = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end)
    config = Qwen2Config(
        num_hidden_layers=2,
        hidden_size=128,
        intermediate_size=256,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1024,
    )
    known.save_pretrained(folder)
    Qwen2ForCausalLM(config).save_pretrained(folder)
