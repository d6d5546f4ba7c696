"""Training frameworks that PyTorch does not bring along, as they come from PyPI.

nox -s frameworks
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run
from test_scripts import SINGLE, traffic

from phantora_py.cli import main
from phantora_py.plan.tables import SHARDING_TYPES

pytestmark = [pytest.mark.torch, pytest.mark.frameworks]
HALF = 2
# As NCCL numbers its types.
_FLOAT = 7
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node"]


def train(
    phantora: Phantora,
    framework: str,
    ranks: int,
    *command: str,
    nodes: int = 1,
    options: Sequence[str] = (),
) -> Run:
    """A run with so many ranks on each node that ended well, met no call that is not modelled, and
    whose iterations were found.
    """
    if importlib.util.find_spec(framework) is None:
        session = "recommendation" if framework == "torchrec" else "frameworks"
        pytest.skip(f"{framework} is not installed: nox -s {session}")
    words = [*TORCHRUN, str(ranks), "--nnodes", str(nodes), *command]
    run = phantora.run(options, words)
    assert run.exit_code == 0, run.errors
    assert run.summary["trust"]["calls"]["unsupported"] == 0
    assert run.summary["iterations"]["count"] >= 3
    return run


def parameters(run: Run) -> int:
    """What every rank says."""
    (count,) = set(re.findall(r"(\d+) parameters", run.output))
    return int(count)


def test_lightning(phantora: Phantora) -> None:
    """Gradients are reduced once, in single precision; Lightning's end leaves the ranks alive."""
    run = train(phantora, "lightning", 2, str(PROGRAMS / "with_lightning.py"))
    assert sum(traffic(run, "all_reduce").elements()) == SINGLE * parameters(run)


@pytest.mark.parametrize("stage", [2, 3])
def test_deepspeed(phantora: Phantora, stage: int) -> None:
    """Every parameter is gathered once in an iteration, every gradient reduced once."""
    run = train(phantora, "deepspeed", 2, str(PROGRAMS / "with_deepspeed.py"), str(stage))
    whole = HALF * parameters(run)
    assert sum(traffic(run, "all_gather").elements()) == whole
    assert traffic(run, {2: "all_reduce", 3: "reduce_scatter"}[stage])[whole] == 1


def test_megatron_core(phantora: Phantora) -> None:
    """Four reductions of a layer and two of the embeddings, of each half of the ranks."""
    run = train(phantora, "megatron", 4, str(PROGRAMS / "with_megatron_core.py"))
    layers, width, length, batch, microbatches = 2, 256, 128, 2, 2
    activations = HALF * batch * length * width
    assert traffic(run, "all_reduce")[activations] == 2 * microbatches * (4 * layers + 2)


def test_megatron_core_is_folded(phantora: Phantora) -> None:
    """Its groups of gloo too: an iteration takes as long as where all ranks run."""
    program = str(PROGRAMS / "with_megatron_core.py")
    whole = train(phantora, "megatron", 8, program)
    folded = phantora.run(["--ranks", "8", "--fold", "dp", "--mesh", "dp=4,tp=2"], [program])
    assert folded.exit_code == 0, folded.errors
    assert folded.summary["iterations"]["median_ns"] == whole.summary["iterations"]["median_ns"]
    assert folded.summary["trust"]["folding"]["processes"] == 4


@pytest.mark.parametrize("model", ["vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0"])
def test_timm(phantora: Phantora, model: str) -> None:
    """Gradients are reduced once."""
    run = train(phantora, "timm", 2, str(PROGRAMS / "with_timm.py"), model)
    assert sum(traffic(run, "all_reduce").elements()) == SINGLE * parameters(run)


def test_torchtitan(phantora: Phantora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, tensor parallel and sharded: its own trainer, with a tokenizer made here."""
    # It can do without. On a GPU, 0.17 and 0.18 do not import with the Triton 3.9 of PyTorch 2.15.
    (tmp_path / "torchao.py").write_text("raise ImportError('left out')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if importlib.util.find_spec("torchtitan") is not None:
        make_assets(phantora.directory / "tests" / "assets")
    options = ["--module", "llama3", "--config", "llama3_debugmodel"]
    options += ["--training.steps", "4", "--parallelism.tensor_parallel_degree", "2"]
    run = train(phantora, "torchtitan", 4, "-m", "torchtitan.train", *options)
    assert traffic(run, "reduce_scatter").total() > 0


def make_assets(folder: Path) -> None:
    """What torchtitan's own tests train with."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: PLC0415

    docs = Path(__file__).parents[2] / "docs"
    texts = [file.read_text() for file in sorted(docs.rglob("*.md"))]
    ends = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = list(ends.values())
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=2000, special_tokens=special)
    )
    for name in ("tokenizer", "c4_test"):
        (folder / name).mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer" / "tokenizer.json"))
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(ends))
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "c4_test" / "data.json").write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("deepspeed", ["deepspeed", "--num_gpus", "2"]),
        ("lightning", ["fabric", "run", "--accelerator", "cuda", "--devices", "2"]),
    ],
)
def test_launchers_of_frameworks(phantora: Phantora, framework: str, words: list[str]) -> None:
    """Their own commands start two ranks; DeepSpeed's ranks get their number as an argument."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: nox -s frameworks")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = phantora.run([], [], {"PATH": path}, whole=[*words, str(PROGRAMS / "started.py"), "a"])
    assert run.exit_code == 0, run.errors
    for rank in (0, 1):
        arguments = [f"--local_rank={rank}", "a"] if framework == "deepspeed" else ["a"]
        assert f"rank {rank} of 2, {rank} on node0: 2.0 {arguments}" in run.output


@pytest.mark.parametrize("way", ["table_wise", "row_wise", "column_wise", "data_parallel"])
def test_torchrec(phantora: Phantora, way: str) -> None:
    """Embedding bags sharded in every way train, nothing that the program reads back is made up,
    and what the exchange of inputs brings is right.
    """
    run = train(phantora, "torchrec", 2, str(PROGRAMS / "with_torchrec.py"), way)
    assert run.summary["trust"]["unknown_reads"] == []
    if way == "table_wise":
        assert run.output.count("the exchange is right") == 2


@pytest.mark.parametrize(
    ("kind", "sharding", "kernel", "nodes"),
    [
        ("bags", "table_row_wise", "fused", 2),
        ("bags", "table_column_wise", "fused", 2),
        ("bags", "grid_shard", "fused", 2),
        ("sequences", "table_wise", "fused", 1),
        ("sequences", "row_wise", "fused", 1),
        ("sequences", "column_wise", "fused", 1),
        ("sequences", "data_parallel", "dense", 1),
        ("dlrm", "row_wise", "fused", 1),
    ],
)
def test_torchrec_pipeline(
    phantora: Phantora, kind: str, sharding: str, kernel: str, nodes: int
) -> None:
    """Plans of TorchRec's planner train in its pipeline: shards are asked for the right rows,
    nothing that decides is made up, and FBGEMM's lookups say how much they look up.
    """
    command = (str(PROGRAMS / "torchrec_pipeline.py"), kind, sharding, kernel)
    run = train(phantora, "torchrec", 2, *command, nodes=nodes)
    ranks = 2 * nodes
    assert run.summary["trust"]["unknown_reads"] == []
    assert run.output.count("8 steps") == ranks
    if sharding != "data_parallel":
        assert run.output.count("the exchange is right") == ranks
    classes = {one["class"] for one in run.data.timings if "codegen_forward" in one["name"]}
    assert classes == {"embedding"}


@pytest.mark.parametrize("sharding", SHARDING_TYPES)
def test_plans_in_torchrec(
    phantora: Phantora, tmp_path: Path, capsys: pytest.CaptureFixture[str], sharding: str
) -> None:
    """A plan of each type trains in TorchRec on two nodes of two ranks: shards are asked for the
    right rows, and results take the collectives and the bytes that `phantora plan` counts.
    """
    tables, plan = tmp_path / "tables.json", tmp_path / "plan.json"
    shape = {"rows": 10_000, "dim": 64, "pooling": 2}
    only = {"constraints": {"sharding_types": [sharding]}}
    specs = [{"name": f"t{n}", "features": [f"f{n}"]} | shape | only for n in range(4)]
    tables.write_text(json.dumps(specs), encoding="utf-8")
    options = ["--ranks", "4", "--gpus-per-node", "2", "--batch", "4096", "--module", "tables"]
    assert main(["plan", "--tables", str(tables), *options, "-o", str(plan), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["ranks"]
    command = (str(PROGRAMS / "torchrec_pipeline.py"), "bags", str(plan))
    # Before a rank has used its GPU, PyTorch takes rank 2 to be on GPU 2 if a node has one.
    run = train(phantora, "torchrec", 2, *command, nodes=2, options=["--gpus-per-node", "2"])
    assert run.summary["trust"]["unknown_reads"] == []
    assert run.output.count("8 steps") == 4
    if sharding != "data_parallel":
        assert run.output.count("the exchange is right") == 4
    results = [one for one in run.data.operations if one["dtype"] == _FLOAT]
    sums = {(one["bytes"], len(one["members"])) for one in results if "scatter" in one["kind"]}
    whole = SINGLE * 4 * 4096 * 4 * 64
    on_nodes = {(whole // 2, 2)}
    scattered = {"row_wise": {(whole, 4)}, "table_row_wise": on_nodes, "grid_shard": on_nodes}
    assert sums == scattered.get(sharding, set())
    sent = [
        one["bytes"] for one in results if one["kind"] == "send" and len(set(one["members"])) > 1
    ]
    assert sum(sent) == 8 * 2 * sum(one["sent_bytes"] for one in expected)
