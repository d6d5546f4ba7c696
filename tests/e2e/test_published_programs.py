"""Programs that others publish, by the commands that their own pages give.

nox -s programs                      what PyPI has
nox -s programs -- --sources DIR     also those of which DIR has a checkout (docs/programs.md)
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest
from checkouts import (
    Sources,
    make_digits,
    make_documents,
    make_images,
    make_model,
    make_shards,
    make_text,
    make_tokens,
)
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = [pytest.mark.torch, pytest.mark.programs, pytest.mark.timeout(1200)]
LIMIT_S = 600.0
WITHIN = 0.01
"""Between the headline and what a program prints of itself."""


@pytest.fixture(scope="session")
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """What the caller names, copied."""
    return Sources(request.config.getoption("--sources"), tmp_path_factory.mktemp("sources"))


def require(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: nox -s programs")


def start(folder: Path, options: Sequence[str], *command: str) -> Run:
    """A run in `folder` that ended well, met no call that is not modelled and left nothing."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    phantora = Phantora(folder, LIMIT_S)
    run = phantora.run(options, [], {"PATH": path, "HF_HUB_OFFLINE": "1"}, whole=command)
    assert run.exit_code == 0, run.errors
    assert run.summary["trust"]["calls"]["unsupported"] == 0
    phantora.close()
    return run


def iteration_s(run: Run) -> float:
    return float(run.summary["iterations"]["median_ns"]) / 1e9


def last(run: Run, pattern: str) -> float:
    """The last figure that the program prints so."""
    return float(re.findall(pattern, run.output)[-1].replace(",", ""))


TRAINER = (
    "--max_steps 8 --per_device_train_batch_size 4 --bf16 True --logging_steps 1 --report_to none"
)
STEPS = 8
"""Of TRAINER."""


@pytest.mark.parametrize(
    "launcher",
    [
        "torchrun --nproc-per-node 2",
        "accelerate launch --multi_gpu --num_processes 2",
        "accelerate launch --use_fsdp --fsdp_version 1 --num_processes 2",
        "accelerate launch --use_fsdp --fsdp_version 2 --num_processes 2",
        "accelerate launch --use_deepspeed --zero_stage 1 --num_processes 2",
        "accelerate launch --use_deepspeed --zero_stage 2 --num_processes 2",
        "accelerate launch --use_deepspeed --zero_stage 3 --num_processes 2",
    ],
)
def test_trainer_of_transformers(tmp_path: Path, launcher: str) -> None:
    """The Trainer's own steps a second are the headline's, but for the first steps."""
    require("transformers", "accelerate", *(["deepspeed"] if "deepspeed" in launcher else []))
    script = str(PROGRAMS / "causal_lm.py")
    options = [*TRAINER.split(), "--output_dir", str(tmp_path / "out")]
    run = start(tmp_path, [], *launcher.split(), script, *options)
    steps_per_s = last(run, r"'train_steps_per_second': '?([\d.]+)")
    assert STEPS - 1 < STEPS / steps_per_s / iteration_s(run) < STEPS + 3


@pytest.mark.parametrize(
    ("package", "option", "kernel"),
    [
        ("bitsandbytes", "--optim adamw_bnb_8bit", "kOptimizerStatic8bit2StateBlockwise"),
        ("liger_kernel", "--use_liger_kernel True", "_rms_norm_forward_kernel"),
    ],
)
def test_kernels_of_packages(tmp_path: Path, package: str, option: str, kernel: str) -> None:
    """Kernels that a package brings or compiles are launched by their names."""
    require("transformers", "accelerate", package)
    script = [str(PROGRAMS / "causal_lm.py"), *TRAINER.split(), *option.split()]
    run = start(tmp_path, ["--ranks", "1"], "python", *script, "--output_dir", "out")
    assert any(kernel in timing["name"] for timing in run.data.timings)


def test_adapters_on_four_bits(tmp_path: Path) -> None:
    """Adapters of peft: a kernel of bitsandbytes expands the weights below them."""
    require("transformers", "accelerate", "bitsandbytes", "peft")
    script = [str(PROGRAMS / "quantized_adapters.py"), "model", *TRAINER.split()]
    settings = ["--optim", "paged_adamw_8bit", "--output_dir", "out"]
    run = start(tmp_path, ["--ranks", "1"], "python", *script, *settings)
    assert any("kDequantizeBlockwise" in timing["name"] for timing in run.data.timings)
    assert run.summary["throughput"]["samples"]["per_iteration"] == 4


def test_ulysses(tmp_path: Path) -> None:
    """Of each step: query, key, value and result change hands, forward and backward."""
    require("deepspeed")
    script = str(PROGRAMS / "with_ulysses.py")
    run = start(tmp_path, [], "deepspeed", "--num_gpus", "2", script)
    kinds = [one["kind"] for one in run.data.operations]
    assert kinds.count("all_to_all") == 6 * 2 * 4
    assert run.summary["iterations"]["count"] == 5


def test_fine_tuning_of_trl(tmp_path: Path) -> None:
    """Its script for supervised fine-tuning, on a model and texts made here."""
    require("trl", "datasets")
    make_model(tmp_path / "model")
    make_documents(tmp_path / "texts" / "train.jsonl")
    script = str(Path(importlib.import_module("trl.scripts").__path__[0]) / "sft.py")
    options = [*TRAINER.split(), "--model_name_or_path", "model", "--dataset_name", "texts"]
    launcher = "accelerate launch --multi_gpu --num_processes 2"
    length = ["--max_length", "256", "--output_dir", "out"]
    run = start(tmp_path, [], *launcher.split(), script, *options, *length)
    assert run.summary["throughput"]["samples"]["per_iteration"] == 2 * 4


def test_trl_starts_its_workers(tmp_path: Path) -> None:
    """`trl sft`, which calls accelerate's launcher itself."""
    require("trl", "datasets")
    make_model(tmp_path / "model")
    make_documents(tmp_path / "texts" / "train.jsonl")
    options = [*TRAINER.split(), "--model_name_or_path", "model", "--dataset_name", "texts"]
    others = ["--max_length", "256", "--output_dir", "out", "--num_processes", "2"]
    run = start(tmp_path, ["--gpus", "2"], "trl", "sft", *options, *others)
    assert run.summary["ranks"] == 2
    assert run.summary["throughput"]["samples"]["per_iteration"] == 2 * 4


def test_texts_that_are_generated(tmp_path: Path) -> None:
    """Each of GRPO's steps generates texts to their greatest length, and ends."""
    require("trl", "datasets")
    make_model(tmp_path / "model")
    make_documents(tmp_path / "texts" / "train.jsonl")
    launcher = "accelerate launch --multi_gpu --num_processes 2"
    run = start(tmp_path, [], *launcher.split(), str(PROGRAMS / "with_grpo.py"))
    assert last(run, r"'completions/max_length': '?([\d.]+)") == 16
    assert run.summary["iterations"]["count"] == 3


def test_lightning_starts_its_workers(tmp_path: Path) -> None:
    """`devices=2` makes two ranks, whose batches add up."""
    require("lightning")
    script = str(PROGRAMS / "lightning_devices.py")
    run = start(tmp_path, ["--gpus", "2"], sys.executable, script, "2")
    assert run.summary["ranks"] == 2
    assert run.summary["throughput"]["samples"]["per_iteration"] == 2 * 16


@pytest.mark.parametrize(
    ("library", "command"),
    [
        ("x_transformers", "python"),
        ("vit_pytorch", "python"),
        ("torch_geometric", "python"),
        ("fairscale", "torchrun --nproc-per-node 2"),
        ("bitsandbytes", "python"),
        ("fla", "python"),
    ],
)
def test_loops_with_libraries(tmp_path: Path, library: str, command: str) -> None:
    """The headline is the middle one of the program's own times. A random graph has the edges that
    are expected of it.
    """
    require(library)
    script = [str(PROGRAMS / "with_libraries.py"), library]
    ranks = ["--ranks", "1"] if command == "python" else []
    run = start(tmp_path, ranks, *command.split(), *script)
    lasted_s = [float(one) for one in re.findall(r"iteration ([\d.]+) s", run.output)]
    per_step = len(lasted_s) // STEPS_WITH_LIBRARIES
    middle_s = statistics.median(lasted_s[per_step:])
    assert middle_s == pytest.approx(iteration_s(run), rel=WITHIN)
    edges = re.findall(r"edges (\d+)", run.output)
    assert all(19_000 < int(one) < 21_000 for one in edges)
    assert len(edges) == (library == "torch_geometric")


STEPS_WITH_LIBRARIES = 6


def test_policy_of_stable_baselines(tmp_path: Path) -> None:
    """A2C on a pole that is balanced: 40 steps, as long as its clock says."""
    require("stable_baselines3")
    run = start(tmp_path, ["--gpus", "1"], sys.executable, str(PROGRAMS / "with_policy.py"))
    assert last(run, r"step ([\d.]+) s") == pytest.approx(iteration_s(run), rel=WITHIN)


@pytest.mark.parametrize(
    ("options", "command", "samples"),
    [
        (["--gpus", "1"], "python", 64),
        ([], "torchrun --standalone --nproc_per_node=4", 256),
    ],
)
def test_nanogpt(sources: Sources, options: list[str], command: str, samples: int) -> None:
    """Its README's two commands: the headline is the time that it prints."""
    folder = sources.copy("nanoGPT")
    data = folder / "data" / "shakespeare_char"
    if not (data / "train.bin").exists():
        (data / "input.txt").write_text(make_text(300_000))
        subprocess.run([sys.executable, data / "prepare.py"], check=True, capture_output=True)
    settings = "--compile=False --max_iters=20 --log_interval=1 --eval_iters=2"
    script = ["train.py", "config/train_shakespeare_char.py", *settings.split()]
    parts = [f"--gradient_accumulation_steps={samples // 64}"]
    run = start(folder, options, *command.split(), *script, *parts)
    assert last(run, r"time ([\d.]+)ms") / 1e3 == pytest.approx(iteration_s(run), rel=WITHIN)
    assert run.summary["throughput"]["samples"]["per_iteration"] == samples


@pytest.mark.parametrize(
    "launcher",
    ["torchrun --nproc-per-node 2", "accelerate launch --multi_gpu --num_processes 2"],
)
def test_causal_language_model(sources: Sources, tmp_path: Path, launcher: str) -> None:
    """run_clm.py: a Trainer's steps a second are the headline's, but for the first steps."""
    require("transformers", "accelerate", "datasets", "evaluate")
    folder = sources.copy("transformers") / "examples" / "pytorch" / "language-modeling"
    make_model(tmp_path / "model")
    (tmp_path / "train.txt").write_text(make_text(200_000))
    model = "--config_name model --tokenizer_name model --do_train --train_file train.txt"
    options = [*model.split(), "--block_size", "128", *TRAINER.split(), "--output_dir", "out"]
    run = start(tmp_path, [], *launcher.split(), str(folder / "run_clm.py"), *options)
    assert run.summary["throughput"]["samples"]["per_iteration"] == 2 * 4
    steps_per_s = last(run, r"train_steps_per_second += +([\d.]+)")
    assert STEPS - 1 < STEPS / steps_per_s / iteration_s(run) < STEPS + 3


def test_imagenet(sources: Sources) -> None:
    """It spawns a worker for each of two GPUs, which share its 64 images."""
    folder = sources.copy("examples") / "imagenet"
    settings = "-a resnet18 --dummy -b 64 -j 1 --epochs 1 -p 1 --dist-backend nccl"
    workers = "--multiprocessing-distributed --world-size 1 --rank 0"
    address = ["--dist-url", "tcp://127.0.0.1:29511"]
    words = ["python", "main.py", *settings.split(), *workers.split(), *address]
    run = start(folder, ["--until-steady", "--gpus", "2"], *words)
    assert run.summary["ranks"] == 2
    assert run.summary["throughput"]["samples"]["per_iteration"] == 64


def test_timm(sources: Sources, tmp_path: Path) -> None:
    """Its distributed_train.sh: the headline is the images a second that it logs."""
    require("timm", "torchvision")
    folder = sources.copy("pytorch-image-models")
    make_images(tmp_path / "images", 64)
    settings = "--num-classes 2 --model resnet18 --img-size 64 -b 8 --epochs 1 --log-interval 1"
    others = "--amp --amp-dtype bfloat16 --workers 1 --output out --data-dir"
    words = ["bash", "distributed_train.sh", "2", *settings.split(), *others.split()]
    run = start(folder, [], *words, str(tmp_path / "images"))
    logged = re.findall(r"s, +([\d.]+)/s +\(", run.output + run.errors)
    images_per_s = statistics.median(map(float, logged))
    assert 16 / images_per_s == pytest.approx(iteration_s(run), rel=WITHIN)
    assert run.summary["throughput"]["samples"]["per_iteration"] == 16


@pytest.mark.parametrize("example", ["mnist", "vae"])
def test_digits(sources: Sources, example: str) -> None:
    """Examples of one GPU, which take the first that they find."""
    require("torchvision")
    folder = sources.copy("examples")
    make_digits(folder / "data" / "MNIST" / "raw")
    run = start(folder / example, ["--gpus", "1"], "python", "main.py", "--epochs", "1")
    images = {"mnist": 64, "vae": 128}[example]
    assert run.summary["throughput"]["samples"]["per_iteration"] == images


def test_mingpt(sources: Sources) -> None:
    """Each of four ranks takes 216 samples; the epoch's last batch is set apart."""
    require("hydra")
    folder = sources.copy("examples") / "distributed" / "minGPT-ddp" / "mingpt"
    (folder / "data" / "input.txt").write_text(make_text(400_000))
    told = ["data_config.path=data/input.txt", "trainer_config.max_epochs=1"]
    run = start(folder, [], "torchrun", "--standalone", "--nproc_per_node=4", "main.py", *told)
    assert run.summary["throughput"]["samples"]["per_iteration"] == 4 * 216
    assert len(run.summary["iterations"]["apart"]) == 1


@pytest.mark.parametrize(
    ("folder", "script", "ranks"),
    [
        ("FSDP2", "example.py", 2),
        ("ddp", "example.py", 4),
        ("tensor_parallelism", "tensor_parallel_example.py", 4),
        ("tensor_parallelism", "sequence_parallel_example.py", 4),
        ("tensor_parallelism", "fsdp_tp_example.py", 4),
    ],
)
def test_parallelism_of_examples(sources: Sources, folder: str, script: str, ranks: int) -> None:
    """Their run_example.sh calls torchrun, which is the run."""
    place = sources.copy("examples") / "distributed" / folder
    run = start(place, [], "bash", "run_example.sh", script, str(ranks))
    assert run.summary["ranks"] == ranks
    assert run.summary["iterations"]["count"] == (0 if folder == "ddp" else 9)


def test_torchtitan(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run_train.sh, compiled, with profiler and checkpoint: tokens a second as it prints."""
    require("grain", "spmd_types", "torch_checkpointing")
    folder = sources.copy("torchtitan")
    make_documents(folder / "tests" / "assets" / "c4_test" / "data.json")
    monkeypatch.setenv("NGPU", "2")
    settings = "--training.steps 6 --checkpoint.enable"
    profiler = "--profiler.enable_profiling --profiler.profile_freq 5"
    run = start(folder, [], "./run_train.sh", *settings.split(), *profiler.split())
    tokens_per_s = last(run, r"tps: .*?([\d,]+)")
    assert 8 * 2048 / tokens_per_s == pytest.approx(iteration_s(run), rel=WITHIN)
    assert list((folder / "outputs").rglob("*.json*"))
    assert list((folder / "outputs" / "checkpoint").iterdir())


def test_build_nanogpt(sources: Sources) -> None:
    """19,073 steps are cut where their time has settled; it prints the headline's."""
    folder = sources.copy("build-nanogpt")
    make_tokens(folder)
    command = "torchrun --standalone --nproc_per_node=2 train_gpt2.py"
    run = start(folder, ["--until-steady"], *command.split())
    assert last(run, r"dt: ([\d.]+)ms") == pytest.approx(iteration_s(run) * 1e3, rel=WITHIN)
    assert run.summary["throughput"]["tokens"]["per_iteration"] == 524_288


def test_modded_nanogpt(sources: Sources) -> None:
    """It is compiled under DDP, in parts, asks for tuning and steps two optimizers; 5,100 steps are
    cut where their time has settled.
    """
    folder = sources.copy("modded-nanogpt")
    make_shards(folder / "data" / "fineweb10B")
    command = "torchrun --standalone --nproc_per_node=2 train_gpt2.py"
    run = start(folder, ["--until-steady"], *command.split())
    before_ms, after_ms = (float(one) for one in re.findall(r"train_time:(\d+)ms", run.output)[-2:])
    assert after_ms - before_ms == pytest.approx(iteration_s(run) * 1e3, rel=WITHIN)
    assert run.summary["throughput"]["tokens"]["per_iteration"] == 524_288
    assert run.summary["iterations"]["holds"] == "2 optimizer steps, 4 micro-batches"


def test_dlrm(sources: Sources) -> None:
    """TorchRec's, of which row-wise shards need sizes that its evaluation must not make unknown."""
    require("torchrec", "torchmetrics")
    folder = sources.copy("dlrm") / "torchrec_dlrm"
    run = start(folder, [], "torchrun", "--nproc-per-node", "4", "dlrm_main.py", *DLRM.split())
    assert run.output.count("AUROC over val set") == 3
    assert run.output.count("AUROC over test set") == 1
    # What the metric does with unknown scores, and no size of a split.
    for row in run.summary["trust"]["unknown_reads"]:
        assert row["place"].endswith(("dlrm_main.py:353", "dlrm_main.py:359")), row


DLRM = f"""
    --num_embeddings_per_feature 40000000,40000000,40000000,{",".join(["1000"] * 23)}
    --embedding_dim 128 --dense_arch_layer_sizes 256,128 --over_arch_layer_sizes 256,1
    --pin_memory --adagrad --batch_size 2048 --limit_train_batches 10
    --validation_freq_within_epoch 5 --limit_val_batches 4 --limit_test_batches 4
"""


def test_megatron(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensor, pipeline and data parallel by two: the headline is the time that it logs."""
    folder = sources.copy("Megatron-LM")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    helpers = folder / "megatron" / "core" / "datasets"
    subprocess.run(["make", f"LIBEXT={suffix}"], cwd=helpers, check=True, capture_output=True)
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    words = f"torchrun --nproc_per_node 8 pretrain_gpt.py {MEGATRON}"
    run = start(folder, [], *words.split())
    logged = last(run, r"elapsed time per iteration \(ms\): ([\d.]+)")
    assert logged == pytest.approx(iteration_s(run) * 1e3, rel=WITHIN)
    assert run.summary["throughput"]["samples"]["per_iteration"] == 16


MEGATRON = """
    --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --split 90,5,5
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-distributed-optimizer
    --num-layers 4 --hidden-size 256 --num-attention-heads 4
    --seq-length 256 --max-position-embeddings 256 --micro-batch-size 2 --global-batch-size 16
    --train-iters 6 --lr 1e-4 --min-lr 1e-5 --bf16 --log-interval 1 --log-throughput
    --eval-iters 0 --eval-interval 1000 --transformer-impl local
    --no-gradient-accumulation-fusion --no-masked-softmax-fusion --no-bias-gelu-fusion
    --no-bias-swiglu-fusion --no-bias-dropout-fusion --no-persist-layer-norm
"""
"""Without Apex and transformer-engine."""
