"""Ordinary training scripts: what follows from their shapes, and how little had to be guessed."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.iterations import find_iterations

pytestmark = pytest.mark.torch

SINGLE, MIB = 4, 1 << 20
RANKS = 2


def run_script(phantora: Phantora, *command: str, ranks: int = RANKS) -> Run:
    """A run that ended well and met no call that is not modelled."""
    run = phantora.run(["--ranks", str(ranks)], [PROGRAMS / command[0], *command[1:]])
    assert run.exit_code == 0, run.errors
    assert run.summary["trust"]["calls"]["unsupported"] == 0
    return run


def traffic(run: Run, kind: str) -> Counter[int]:
    """How often a collective of so many bytes moved between the last two optimizer steps."""
    begin_ns, end_ns = find_iterations(run.data).boundaries_ns[-2:]
    return Counter(
        int(one["bytes"])
        for one in run.data.operations
        if one["kind"] == kind and begin_ns < one["moves_ns"] <= end_ns
    )


def synthetic_reads(run: Run) -> int:
    return int(run.summary["trust"]["synthetic_reads"])


# The channels of each batch normalisation of the residual network: a stem and, per block of four
# stages, two narrow ones and a wide one; the first block of a stage has one more wide one.
NORMALISATIONS = Counter({16: 1})
for width, blocks in zip((16, 32, 64, 128), (3, 4, 6, 3), strict=True):
    NORMALISATIONS[width] += 2 * blocks
    NORMALISATIONS[4 * width] += blocks + 1


def test_convolutional_network(phantora: Phantora) -> None:
    """Statistics of every normalisation are exchanged, gradients reduced once; the scale holds."""
    run = run_script(phantora, "resnet.py", "--benchmark")
    assert traffic(run, "all_gather") == {
        RANKS * SINGLE * (2 * channels + 1): count for channels, count in NORMALISATIONS.items()
    }
    for channels, count in NORMALISATIONS.items():
        assert traffic(run, "all_reduce")[SINGLE * 2 * channels] == count
    (parameters,) = set(re.findall(r"rank \d: (\d+) parameters, scale 65536", run.output))
    buckets = [size for size in traffic(run, "all_reduce").elements() if size > MIB]
    assert sum(buckets) == SINGLE * int(parameters)
    assert run.summary["iterations"]["count"] == 3
    # The loss, printed by one rank.
    assert synthetic_reads(run) == 4


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_hugging_face_trainer(phantora: Phantora, model: str) -> None:
    """Gradients are reduced once for two accumulated batches, whatever else Trainer does."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    run = run_script(phantora, "hf_trainer.py", model)
    (parameters,) = set(re.findall(r"5 steps, (\d+) parameters", run.output))
    assert sum(traffic(run, "all_reduce").elements()) == SINGLE * int(parameters)
    assert run.summary["iterations"]["count"] == 4


def test_optimizers(phantora: Phantora) -> None:
    """What each keeps, in units of the parameters; steps on the GPU are a block of 512 bytes."""
    run = run_script(phantora, "optimizers.py")
    layers, width = 4, 1024
    parameters = SINGLE * layers * width**2
    steps = 512 * layers
    expected = {
        "sgd": parameters,
        "sgd-fused": parameters,
        "adam-for-loop": 2 * parameters,
        "adam-foreach": 3 * parameters,
        "adamw-foreach": 2 * parameters,
        "adamw-fused": 2 * parameters + steps,
        "adamw-capturable": 2 * parameters + steps,
        "adafactor": 2 * SINGLE * layers * width,
        "muon": parameters,
        "zero": 2 * parameters // RANKS,
    }
    kept = re.findall(r"rank 0: ([\w-]+) keeps (\d+) bytes", run.output)
    assert {name: int(size) for name, size in kept} == expected
    # Adafactor asks of every parameter in every step how large it is.
    assert synthetic_reads(run) == RANKS * 4 * layers * 2


@pytest.mark.frameworks
def test_eight_bit_states(phantora: Phantora) -> None:
    """Both moments are a byte a number, with a scale for 256 of them and a table of values."""
    pytest.importorskip("torchao", reason="torchao is not installed: nox -s frameworks")
    run = run_script(phantora, "optimizers.py", "adamw-8bit")
    layers, numbers = 4, 1024**2
    moment = numbers + SINGLE * numbers // 256 + SINGLE * 256
    assert run.output.count(f"adamw-8bit keeps {2 * layers * moment} bytes") == RANKS
    assert synthetic_reads(run) == 0


def test_distributed_checkpoint(phantora: Phantora, tmp_path: Path) -> None:
    """Saved twice and loaded; the files hold parameters and two states of each."""
    run = run_script(phantora, "checkpoint.py", str(tmp_path / "saved"))
    assert run.output.count("went on from step {2.0}") == RANKS
    parameters = SINGLE * 3 * (256**2 + 256)
    for folder in ("saved", "saved-2"):
        size = sum(file.stat().st_size for file in (tmp_path / folder).glob("*.distcp"))
        assert 3 * parameters < size < 1.1 * 3 * parameters


def test_large_objects(phantora: Phantora) -> None:
    """They arrive as they were sent, with the tensors in them, and nothing unknown is read."""
    run = run_script(phantora, "large_objects.py")
    assert "the same letters: True [0, 1, 2, 3, 4]" in run.output
    assert run.summary["trust"]["synthetic_reads"] == 0


def test_padded_objects(phantora: Phantora) -> None:
    """What PyTorch pads them with is no read of unknown values; what a kernel writes there is."""
    run = run_script(phantora, "gathered_objects.py", ranks=3)
    said = Counter(re.sub(r"^(\[rank\d\]: )?", "", line) for line in run.output.splitlines())
    assert said["all [10, 100010, 200010]"] == 3
    assert said["first [0, 1, 2]"] == 1
    assert {f"own {rank}" for rank in range(3)} <= set(said)
    assert said["written [0, 1, 2, 3]"] == 3
    assert [row["per_rank"] for row in run.summary["trust"]["unknown_reads"]] == [[1, 1, 1]]


@pytest.mark.parametrize(
    ("configuration", "large_mib"),
    [
        # A large block does not fit between small ones.
        ("", range(284, 290)),
        # Steps of 20 MiB, at the end of one segment.
        ("expandable_segments:True", range(288, 309)),
        # The driver's pool gives blocks that were freed back as one.
        ("backend:cudaMallocAsync", range(192, 193)),
    ],
)
def test_allocators(phantora: Phantora, configuration: str, large_mib: range) -> None:
    """Eight blocks of 24 MiB, four of them and one of 96; all is given back in between."""
    run = phantora.run(
        ["--ranks", "1"],
        [PROGRAMS / "allocators.py"],
        {"PYTORCH_CUDA_ALLOC_CONF": configuration},
    )
    assert run.exit_code == 0, run.errors
    said = dict(re.findall(r"^([\w ]+?) (-?\d+)(?: MiB)?", run.output, re.MULTILINE))
    assert said["allocated"] == "192"
    assert 192 <= int(said["used"]) <= 200
    # The first block, which is small, goes with the others.
    assert -2 <= int(said["left"]) <= 0
    assert int(said["with a large one"]) in large_mib


def test_small_operations(phantora: Phantora) -> None:
    """What is read back of known tensors is what the CPU finds; unknown routing is balanced."""
    run = run_script(phantora, "small_operations.py", ranks=1)
    lines = run.output.splitlines()
    assert [line for line in lines[:-7] if not line.endswith(": right")] == []
    assert len(lines) > 15
    assert lines[-7] == f"experts: {[4096 * 2 // 8] * 8}"
    assert lines[-6] == f"one expert: {[4096 // 8] * 8}"
    # Neither the first nor the last, with which texts end.
    assert lines[-5] == f"words: {([[250], [750]], [[125, 375], [625, 875]])}, {4096 * 8 // 2}"
    assert lines[-4] == "partly written: [9, 0, 0, 8], [9, 8]"
    assert lines[-3:-1] == ["scale after 1.0: 4.0", "scale after inf: 2.0"]
    # Not what lay there before. Read back are the count, five choices, and what is partly written.
    assert lines[-1] == "of values that nobody knows: 0"
    assert synthetic_reads(run) == 7
    assert run.summary["trust"]["expert_load"]["experts"] == [8, 1000, 4096 * 8]


def test_decided_results(phantora: Phantora) -> None:
    """`x | True` is known whatever x is; what is sampled of chances that nobody knows is made up,
    and counted as that. Both end the loops that generate texts.
    """
    run = run_script(phantora, "decided_results.py", ranks=1)
    said = [line.split(": ") for line in run.output.splitlines()]
    decided = dict(said[:10])
    assert decided["flags or"] == decided["or flags"] == str([True] * 4)
    assert decided["flags and"] == decided["logical and"] == str([False] * 4)
    assert decided["numbers and"] == decided["numbers and flags"] == str([0] * 4)
    assert decided["numbers or"] == str([-1] * 4)
    assert decided["logical or"] == decided["in place"] == str([True] * 4)
    assert decided["in its own place"] == str([0] * 4)
    finite = dict(said[10:15])
    assert finite["not a number"] == finite["infinite"] == str([False] * 4)
    assert finite["finite"] == finite["numbers"] == str([True] * 4)
    assert finite["others"] == str([True, False, False, False])
    checks = dict(said[15:24])
    assert checks.pop("all") == checks.pop("close") == checks.pop("equal") == "True"
    assert checks.pop("each row") == "True"
    assert set(checks.values()) == {"False"}  # `any`, one flag that is known, numbers
    assert said[24] == ["searched", "[2, 2, 16384, 16000]"]
    assert [what for what, _ in said[25:27]] == ["open", "open"]
    assert said[27] == ["turns", "5"]
    assert said[28:] == [*[["made up", "[4, 4, 4] below True"]] * 2, ["others", "True"]]
    sites = {one["site"].split(":")[1].split(" ")[1] for one in run.data.synthetic_reads}
    assert sites == {"tell_of_operations", "generate", "main"}


def test_undefined_values(phantora: Phantora) -> None:
    """What a GPU and a CPU make differently is unknown, and nothing beside it."""
    run = run_script(phantora, "undefined_values.py", ranks=1)
    lines = run.output.splitlines()
    assert len(lines) == 4 * 2 * 4 + 2 + 4
    assert [line for line in lines if not line.endswith(" right")] == []


def test_other_layouts_and_classes(phantora: Phantora) -> None:
    """Sparse, nested and meta tensors, and classes of a program's own, go through as they are."""
    run = run_script(phantora, "other_tensors.py", ranks=1)
    assert run.output.splitlines() == [
        "product (2,)",
        "sparse product (2,)",
        "elements 7 7",
        "dense again (2, 4)",
        "padded (2, 4)",
        "named (2, 4)",
        "wrapped True",
        "meta (2, 4)",
        "forward (2, 2)",
        "of numbers alone True meta",
    ]


def test_mixture_of_experts(phantora: Phantora) -> None:
    """Tokens go to their experts and back, and gradients come back, by counts from the GPU."""
    run = run_script(phantora, "experts.py")
    experts, top, tokens, width = 8, 2, 512, 256
    assert run.output.count(f"loads {[tokens * top // experts] * experts}") == RANKS
    # To either rank, in both directions of the forward and one of the backward pass: the tokens
    # themselves have no gradient.
    pair = SINGLE * width * tokens * top // RANKS
    assert traffic(run, "send") == {pair: 3 * RANKS**2}
    assert traffic(run, "all_to_all") == {RANKS * 8 * experts // RANKS: 1}
    # The routing of every step.
    assert synthetic_reads(run) == RANKS * 4


def test_loads_of_experts(phantora: Phantora) -> None:
    """On eight ranks with an expert each, what is sent to a rank follows the distribution."""
    experts, top, tokens, width = 8, 2, 512, 256
    run = phantora.run(
        ["--ranks", str(experts), "--expert-load", "zipf:1"], [PROGRAMS / "experts.py"]
    )
    assert run.exit_code == 0, run.errors
    # Choices as 1, 1/2, ... 1/8: the parts of 1024 end where the sums of these do.
    sums = [sum(1 / (i + 1) for i in range(n)) for n in range(experts + 1)]
    ends = [int(tokens * top * part / sums[-1] + 1e-9) for part in sums]
    loads = [end - begin for begin, end in itertools.pairwise(ends)]
    assert loads == [376, 189, 125, 94, 76, 63, 53, 48]
    assert run.output.count(f"loads {loads}") == experts
    # From every rank, there and back and there again with gradients.
    assert traffic(run, "send") == {SINGLE * width * load: 3 * experts for load in loads}
    load = {"name": "zipf:1", "routings": experts * 4, "experts": [experts], "others": 0}
    assert run.summary["trust"]["expert_load"] == load


def test_recommender(phantora: Phantora) -> None:
    """Embedded rows go to the rank that has the rest of the sample, their gradients back."""
    run = run_script(phantora, "recommender.py")
    tables, width, batch = 8, 64, 256
    assert traffic(run, "all_to_all") == {SINGLE * tables * batch * width: 2}
    layers = [(13, 128), (128, width), (width + 9 * 8 // 2, 128), (128, 1)]
    dense = sum(inputs * outputs + outputs for inputs, outputs in layers)
    assert traffic(run, "all_reduce") == {SINGLE * dense: 1}
    assert synthetic_reads(run) == RANKS


def test_attentions(phantora: Phantora) -> None:
    """Every way takes its own kernels; only cuDNN's times are assumed."""
    run = run_script(
        phantora, "attentions.py", "flash", "efficient", "cudnn", "math", "flex", ranks=1
    )
    names = " ".join(str(timing) for timing in run.data.timings)
    for kernel in (
        "flash_fwd",
        "flash_bwd",
        "fmha_cutlassF",
        "fmha_cutlassB",
        "attention_backward",
    ):
        assert kernel in names
    assert run.output.count("done") == 5


def test_recurrent_networks(phantora: Phantora) -> None:
    """Every pass of cuDNN's LSTM and GRU runs in every step; their gradients are reduced."""
    hidden, features, letters = 192, 80, 32
    run = run_script(phantora, "recurrent.py", "--hidden", str(hidden))
    passes = {one["name"]: one["count"] for one in run.data.timings if one["class"] == "recurrent"}
    assert passes == {
        f"cudnn {cell}_{direction} f16 h{hidden} x{layers}": 4 * RANKS
        for cell, layers in (("lstm", 2), ("gru", 1))
        for direction in ("forward", "backward_data", "backward_weights")
    }
    # Of a gate: columns of the input and of the hidden state, and two biases.
    lstm = 2 * 4 * hidden * (features + hidden + 2) + 2 * 4 * hidden * (2 * hidden + hidden + 2)
    gru = 3 * hidden * (2 * hidden + hidden + 2)
    reduced = sum(traffic(run, "all_reduce").elements())
    assert reduced == SINGLE * (lstm + gru + letters * (hidden + 1))
    assert run.output.count("16 sequences") == RANKS
    # PyTorch draws the seed of the dropout on the GPU and reads it back: it is known.
    assert synthetic_reads(run) == 0


def test_context_parallel(phantora: Phantora) -> None:
    """Each rank has half of the sequence; keys and values pass by in every step."""
    run = run_script(phantora, "context_parallel.py", "allgather")
    assert run.output.count("512 of 1024 tokens") == RANKS
    assert synthetic_reads(run) == 0
    assert len(traffic(run, "all_gather")) > 0


def test_tensor_parallel_within_data_parallel(phantora: Phantora) -> None:
    """Two dimensions: activations within pairs, halves of the weights between them."""
    run = run_script(phantora, "tensor_parallel.py", ranks=4)
    width, layers, batch, length = 256, 2, 2, 128
    activations = SINGLE * batch * length * width
    # Both passes gather once and scatter once in each layer.
    assert traffic(run, "all_gather")[activations] == 2 * 2 * layers
    assert traffic(run, "reduce_scatter")[activations] == 2 * 2 * layers
    # Halves of two matrices and a bias; the other bias and the norm are whole.
    weights = SINGLE * (4 * width * width + 2 * width + 3 * width)
    assert traffic(run, "reduce_scatter")[weights] == 2 * layers


def test_scaled_products(phantora: Phantora) -> None:
    """FP8 by tensor and by rows as one product each; grouped ones have the sizes of a group."""
    run = run_script(phantora, "scaled_products.py", "tensor", "rows", "grouped", ranks=1)
    assert run.output.count("(1024, 512) torch.bfloat16") == 3
    counts = {str(timing["name"]): timing["count"] for timing in run.data.timings}
    assert any("f8e4m3" in name for name in counts)
    # The product, and both its gradients, in each of three steps.
    tiers = {str(timing["name"]): timing["tier"] for timing in run.data.timings}
    for sizes in ("256x512x768", "768x512x256", "256x768x512"):
        assert counts[f"grouped gemm bf16 {sizes} x4 NN"] == 3
        # It is known where the groups end.
        assert tiers[f"grouped gemm bf16 {sizes} x4 NN"] == "modelled"


def test_grouped_products_of_unknown_groups(phantora: Phantora) -> None:
    """Where PyTorch reads back where they end, all are of one size, and the report counts that."""
    run = run_script(phantora, "scaled_products.py", "routed", ranks=1)
    steps, groups = 3, 4
    counts = {str(timing["name"]): timing["count"] for timing in run.data.timings}
    for product in ("512x256x768 NN", "768x256x512 TN", "512x768x256 NT"):
        assert counts[f"gemm f32 {product}"] == steps * groups
    rows = run.summary["trust"]["unknown_reads"]
    assert sorted(row["per_rank"] for row in rows) == [[steps], [2 * steps]]


def test_vendor_libraries(phantora: Phantora, tmp_path: Path) -> None:
    """Transforms, factorisations and compiled snippets run, and each is timed by its sizes."""
    run = phantora.run(
        ["--ranks", "1"],
        [PROGRAMS / "vendor_libraries.py", "fourier", "factors", "complex", "sparse", "snippet"],
        {"PYTORCH_KERNEL_CACHE_PATH": str(tmp_path)},
    )
    assert run.exit_code == 0, run.errors
    counts = Counter[str]()
    for timing in run.data.timings:
        counts[str(timing["name"])] += int(timing["count"])
    steps = 3
    # Of a signal, a kernel and the gradient; back, once; its gradient and two dimensions.
    assert counts["cufft r2c"] == 3 * steps
    assert counts["cufft c2r"] == steps
    assert counts["cufft c2c"] == 2 * steps
    for operation in ("potrf", "potrs", "syevd", "geqrf", "orgqr", "gesvd", "getrf"):
        assert counts[f"cusolver {operation} 256x256"] >= steps
    assert counts["cusolver geev 256x256"] == 2 * steps
    for operation in ("potrf", "syevd", "geqrf", "orgqr", "gesvd", "getrf"):
        assert counts[f"cusolver {operation} 128x128"] == steps
    products = Counter(
        {name.split()[1]: count for name, count in counts.items() if name.startswith("cusparse")}
    )
    # By coordinates and by rows, each with its gradient, and one with a sum.
    assert products == {"coo2csr": 2 * steps, "spmm": 5 * steps, "spmv": steps, "sddmm": steps}
    # NVRTC has really compiled it.
    assert counts["swish_vectorized8_kernel"] == steps
    assert [path.name.split("_arch")[0] for path in tmp_path.glob("swish*")] == [
        "swish_vectorized8"
    ]
    # The statuses of twelve factorisations; another number for each of svd and eig; whether the two
    # matrices of eig are finite, and that all of the first one are: too many flags to keep. How
    # many places the transposed coordinates have is known.
    assert synthetic_reads(run) == (12 + 3 + 2 + 1) * steps


def test_sparse_pairs_and_symmetric_systems(phantora: Phantora) -> None:
    """Sparse matrices are multiplied, added and solved for, also those of blocks; the numbers of
    elements that nobody computes are counted as made up.
    """
    script = PROGRAMS / "vendor_libraries.py"
    run = phantora.run(["--ranks", "1"], [script, "symmetric", "pairs"])
    assert run.exit_code == 0, run.errors
    counts = {str(timing["name"]): int(timing["count"]) for timing in run.data.timings}
    solvers = {name for name in counts if name.startswith("cusolver")}
    assert solvers == {"cusolver sytrf 96x96", "cusolver sytrs 96x96", "cusolver syevd 24x24"}
    products = {name for name in counts if name.startswith("cusparse")}
    for name in ("spgemm 256x256x256 of 256", "csrgeam 256x256 of 512", "bsrmv 256x1x256 of 4096"):
        assert f"cusparse {name}" in products
    for kind, nonzeros in (("sp", 256), ("bsr", 4096)):
        assert f"cusparse {kind}sv 256x1x256 of {nonzeros}" in products
        assert f"cusparse {kind}sm 256x32x256 of {nonzeros}" in products
    # This product has a kernel of Triton.
    assert any(name.startswith("_bsr_strided_addmm_kernel") for name in counts)
    steps = 3
    # Numbers of elements; the statuses of two factorisations of each type.
    assert synthetic_reads(run) == (3 + 2 * 2) * steps
