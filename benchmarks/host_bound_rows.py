"""Published steps that their hosts bound, and the commands that do the same here."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_ACCURACY = HERE / "accuracy"


@dataclass(frozen=True)
class Reach:
    """A row that is too long to run: times at two values of an option, continued to a third, in a
    straight line.
    """

    option: str
    near: tuple[int, int]
    full: int


@dataclass(frozen=True)
class Row:
    """A published step. `program`: of the simulated command, after `--`."""

    family: str
    name: str
    published_s: float
    cluster: str
    ranks: int
    program: tuple[str, ...]
    folder: Path = HERE
    reach: Reach | None = None
    environment: tuple[tuple[str, str], ...] = ()
    is_device_bound: bool = False


def zero3(sequence: int, tokens_per_s: float) -> Row:
    """DeepSpeed on 4 H100. Four sequences a GPU are deduced (docs/accuracy-host.md)."""
    batch, gpus, layers = 4, 4, 32
    return Row(
        family="DeepSpeed, ZeRO-3",
        name=f"Llama 8 B, {sequence} tokens, 4 H100",
        published_s=sequence * batch * gpus / tokens_per_s,
        cluster="h100",
        ranks=gpus,
        program=("host_bound_zero3.py", "--sequence", str(sequence), "--batch", str(batch)),
        reach=Reach("--layers", (2, 6), layers),
    )


def hugging_face(model: str, sequence: int, batch: int, published_s: float) -> Row:
    """A label of sitar-lab/NeuSight@6945927 (scripts/asplos/label, MIT)."""
    return Row(
        family="Hugging Face, fp32",
        name=f"{model}, {batch} x {sequence}, H100",
        published_s=published_s,
        cluster="h100",
        ranks=1,
        program=(
            *("host_bound_hugging_face.py", "--model", model),
            *("--sequence", str(sequence), "--batch", str(batch)),
        ),
    )


def mpt(model: str, gpu: str, sizes: tuple[int, int], tokens_per_s_per_gpu: float) -> Row:
    """A row that its device bounds, of those in benchmarks/accuracy. `sizes`: sequences of a
    micro-batch, micro-batches of a step.
    """
    sequence, (batch, accumulate) = 2048, sizes
    return Row(
        family="MPT, bound by the device",
        name=f"MPT-{model}, 8 {gpu.upper()}",
        published_s=sequence * batch * accumulate / tokens_per_s_per_gpu,
        cluster=gpu,
        ranks=8,
        program=(
            *("train_mpt.py", "--model", model, "--sequence", str(sequence)),
            *("--batch", str(batch), "--accumulate", str(accumulate), "--steps", "2"),
        ),
        folder=_ACCURACY,
        is_device_bound=True,
    )


BUILT_IN = (
    zero3(512, 12_158),
    zero3(1024, 20_815),
    zero3(2048, 25_255),
    hugging_face("bert_large", 512, 2, 0.07475),
    hugging_face("gpt2_large", 1024, 1, 0.18398),
    hugging_face("opt_13", 2048, 1, 0.51328),
    # mosaicml/llm-foundry, scripts/train/benchmarking/README.md at commit 8c8dd48 (Apache-2.0).
    mpt("125m", "a100", (32, 2), 141_737),
    mpt("1b", "h100", (14, 1), 45_455),
)

# Of nanotron's rows: model, tensor-parallel size, GPUs. One data-parallel rank is simulated.
_NANOTRON = (("1B", 4, 8), ("3B", 8, 8))


def nanotron(folder: Path) -> Iterator[Row]:
    """Micro-batches of one sequence, split over a node: data of Hugging Face's Ultra-Scale
    Playbook, as in benchmarks/accuracy.
    """
    with (folder / "training_nanotron.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            model, tp = row["model"].removeprefix("nanotron-llama-"), int(row["tp"])
            key = (model, tp, int(row["num_gpus"]))
            if key not in _NANOTRON or row["micro_batch"] != "1" or row["pp"] != "1":
                continue
            if row["peak_mem_gib"]:
                micro_batches = int(row["grad_accum"])
                yield Row(
                    family="nanotron",
                    name=f"Llama {model}, TP {tp}, a step of {micro_batches}, H100",
                    published_s=float(row["derived_step_time_s"]),
                    cluster=str(HERE / "clusters" / "p5.toml"),
                    ranks=tp,
                    program=("train_nanotron.py", "--model", model, "--tp", str(tp)),
                    folder=_ACCURACY,
                    reach=Reach("--accumulate", (2, 5), micro_batches),
                    environment=(("CUDA_DEVICE_MAX_CONNECTIONS", "1"),),
                )


# Cases of Megatron-LM whose layers are its own ("local"), by name: tensor and pipeline parallelism.
_MEGATRON = {"gpt3_mcore_tp4_pp1_resume_torch_dist": (4, 1), "gpt3_mcore_tp1_pp4": (1, 4)}
_MEGATRON_WORDS = """
    --num-layers 12 --hidden-size 512 --num-attention-heads 8 --seq-length 1024
    --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32
    --log-params-norm --log-num-zeros-in-grad --timing-log-level 0 --log-interval 1
    --mock-data --tokenizer-type NullTokenizer --vocab-size 50256 --split 949,50,1
    --lr 0.00015 --min-lr 1e-5 --weight-decay 1e-2 --clip-grad 1.0
    --eval-interval 1000 --eval-iters 0 --train-iters 3 --distributed-backend nccl
    --transformer-impl local --deterministic-mode --no-gradient-accumulation-fusion
    --fp16 --apply-query-key-layer-scaling --attention-backend unfused
    --no-masked-softmax-fusion --no-bias-gelu-fusion --no-bias-dropout-fusion
    --no-bias-swiglu-fusion --no-persist-layer-norm
"""
_MEGATRON_ENVIRONMENT = (
    *(("CUDA_DEVICE_MAX_CONNECTIONS", "1"), ("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0")),
    *(("NCCL_ALGO", "Ring"), ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")),
    # What it compiles takes minutes on eight ranks.
    ("TORCHDYNAMO_DISABLE", "1"),
)


def megatron(folder: Path, checkout: Path) -> Iterator[Row]:
    """Tiny models of its functional tests, by their golden values (see _MEGATRON)."""
    with (folder / "training_megatron_lm_ci.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            case, gpu = row["model"].rpartition("/")[2], row["gpu"].partition("-")[0]
            if case not in _MEGATRON or gpu != "H100":
                continue
            tp, pp = _MEGATRON[case]
            sizes = f"--tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp}"
            words = f"--nproc_per_node 8 pretrain_gpt.py {_MEGATRON_WORDS} {sizes}"
            yield Row(
                family="Megatron-LM, tiny GPT",
                name=f"TP {tp}, PP {pp}, {gpu}",
                published_s=float(row["value"]),
                cluster=gpu.lower(),
                ranks=8,
                program=("torchrun", *words.split()),
                folder=checkout,
                environment=_MEGATRON_ENVIRONMENT,
            )
