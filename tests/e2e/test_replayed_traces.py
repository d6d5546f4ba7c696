"""`phantora replay`: benchmarks of the examples' traces against the examples themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from phantora_runs import EXAMPLES, PROGRAMS, Phantora, Run

from phantora_py.replay.buckets import bucket
from phantora_py.replay.build import build, coverage
from phantora_py.replay.container import Benchmark, read_benchmark, write_benchmark
from phantora_py.replay.mesh import Growth, Mesh
from phantora_py.replay.obfuscate import obfuscate
from phantora_py.replay.scale import scale
from phantora_py.replay.score import score
from phantora_py.replay.waits import add_waits
from sim_server.errors import UsageError

pytestmark = pytest.mark.torch

SMALL = ["--layers", "2", "--steps", "3", "--batch", "2"]
SIDES = ("replay", "original")
OPTIONS = ["--cluster", "h100", "--ranks", "2"]


def command_of(example: str) -> list[str | Path]:
    """A small run of an example."""
    return [EXAMPLES / example, *SMALL]


Trace = Callable[[Sequence[str | Path]], tuple[Run, Benchmark]]


@pytest.fixture(scope="module")
def trace(phantora: Phantora, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Traces a command on two ranks, once; the run, and a benchmark of it."""
    runs: dict[tuple[str | Path, ...], tuple[Run, Path]] = {}

    def traced(command: Sequence[str | Path]) -> tuple[Run, Benchmark]:
        key = tuple(command)
        if key not in runs:
            folder = tmp_path_factory.mktemp("traced") / "traces"
            runs[key] = phantora.run([*OPTIONS, "--execution-trace", str(folder)], command), folder
        run, folder = runs[key]
        assert run.exit_code == 0, run.errors
        benchmark = build(folder)
        add_waits(benchmark, run.data)
        return run, benchmark

    return traced


@pytest.mark.parametrize("example", ["train_gpt_ddp.py", "train_gpt_fsdp.py"])
def test_a_replay_is_as_the_original(
    phantora: Phantora, trace: Trace, tmp_path: Path, example: str
) -> None:
    bench = tmp_path / "x.bench"
    original, benchmark = trace(command_of(example))
    operators, proxies = coverage(benchmark)
    assert operators > 1000
    assert not proxies
    write_benchmark(benchmark, bench)
    words = [sys.executable, "-m", "phantora_py", "replay", "run", str(bench)]
    replayed = phantora.run(OPTIONS, words[1:])
    assert replayed.exit_code == 0, replayed.errors
    found = score(replayed.path, original.path)
    assert found["kernels_equal"], found["kernels_differing"]
    assert found["collectives_equal"], found["collectives_differing"]
    assert found["collectives"]["original"] > 0
    assert abs(found["iteration_ns"]["change"]) < 0.02
    shared = tmp_path / "shared.bench"
    hidden, replaced = obfuscate(benchmark, 2, b"salt")
    assert not replaced
    write_benchmark(hidden, shared)
    rerun = phantora.run(OPTIONS, [*words[1:-1], str(shared)])
    assert rerun.exit_code == 0, rerun.errors
    found = score(rerun.path, replayed.path)
    assert found["kernels_equal"], found["kernels_differing"]
    assert found["collectives_equal"], found["collectives_differing"]
    assert found["iteration_ns"]["change"] == 0
    rounded, change = bucket(hidden, 0.1, b"salt")
    assert {one for row in rounded.ranks[0]["tensors"] for one in row[3]}.isdisjoint(
        {768, 1024, 2048, 3072, 50304} - {*change.kept}
    )
    assert change.changed > len(change.kept)
    write_benchmark(rounded, shared)
    rerun = phantora.run(OPTIONS, [*words[1:-1], str(shared)])
    assert rerun.exit_code == 0, rerun.errors
    found = score(rerun.path, replayed.path)
    assert found["kernels"]["change"] == 0
    assert found["collectives"]["change"] == 0
    assert 0 < abs(found["iteration_ns"]["change"]) <= change.work
    again = tmp_path / "again.bench"
    write_benchmark(benchmark, again)
    assert again.read_bytes() == bench.read_bytes()
    with pytest.raises(UsageError, match="and none is 2"):
        read_benchmark(bench, 2)


@pytest.mark.parametrize(
    ("ranks", "program", "most"),
    [
        # Sends and receives in batches, whose group only the end of a batch tells.
        pytest.param(4, [PROGRAMS / "pipelining.py", "1F1B", "4"], 0.02, id="pp"),
        # Two optimizers make one iteration. What DDP's logger asks of its events is not in a trace.
        pytest.param(2, [PROGRAMS / "recommender.py"], 0.06, id="recommender"),
        pytest.param(2, [PROGRAMS / "graphs.py", "graph"], 0.02, id="graph"),
        # A stream that nobody names in its arguments.
        pytest.param(2, [PROGRAMS / "fsdp1.py", "full"], 0.03, id="fsdp1"),
    ],
)
def test_replays_of_other_programs(
    phantora: Phantora, tmp_path: Path, ranks: int, program: list[str | Path], most: float
) -> None:
    options = ["--cluster", "h100", "--ranks", str(ranks)]
    folder, bench = tmp_path / "traces", tmp_path / "x.bench"
    original = phantora.run([*options, "--execution-trace", str(folder)], program)
    assert original.exit_code == 0, original.errors
    benchmark = build(folder)
    assert not coverage(benchmark)[1]
    write_benchmark(obfuscate(benchmark, 2, b"salt")[0], bench)
    replayed = phantora.run(options, ["-m", "phantora_py", "replay", "run", str(bench)])
    assert replayed.exit_code == 0, replayed.errors
    found = score(replayed.path, original.path)
    assert found["kernels_equal"], found["kernels_differing"]
    assert found["collectives_equal"], found["collectives_differing"]
    assert found["collectives"]["original"] > 0
    assert abs(found["iteration_ns"]["change"]) < most


OWN_KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def doubled(given, made, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    told = tl.load(given + place, mask=place < count)
    tl.store(made + place, told * 2, mask=place < count)

layer = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.SGD(layer.parameters())
for _ in range(4):
    given = layer(torch.randn(256, 1024, device="cuda"))
    made = torch.empty_like(given)
    doubled[(given.numel() // 1024,)](given, made, given.numel(), BLOCK=1024)
    given.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("is_compiled", [True, False])
def test_kernels_of_triton_are_proxies_that_move_as_many_bytes(
    phantora: Phantora, tmp_path: Path, is_compiled: bool
) -> None:
    """Each launches as often, whatever its name; a program may launch it itself."""
    options = ["--cluster", "h100", "--ranks", "1"]
    folder, bench = tmp_path / "traces", tmp_path / "x.bench"
    own = tmp_path / "own.py"
    own.write_text(OWN_KERNEL)
    program: list[str | Path] = [PROGRAMS / "compiled_steps.py" if is_compiled else own]
    original = phantora.run([*options, "--execution-trace", str(folder)], program)
    assert original.exit_code == 0, original.errors
    benchmark = build(folder)
    proxies = coverage(benchmark)[1]
    assert proxies
    begin = "triton_" if is_compiled else "doubled"
    assert all(name.startswith(begin) for name in proxies)
    write_benchmark(benchmark, bench)
    replayed = phantora.run(options, ["-m", "phantora_py", "replay", "run", str(bench)])
    assert replayed.exit_code == 0, replayed.errors
    found = score(replayed.path, original.path)
    assert found["kernels"]["change"] == 0
    totals = [sum(one[side] for one in found["kernel_ns"].values()) for side in SIDES]
    # A proxy begins earlier than a kernel that casts its operands.
    assert totals[0] == pytest.approx(totals[1], rel=0.04)


@pytest.mark.parametrize(
    ("command", "has_shards"),
    [
        pytest.param(command_of("train_gpt_ddp.py"), False, id="ddp"),
        pytest.param(command_of("train_gpt_fsdp.py"), True, id="fsdp2"),
        # Four ranks pad gradients and divide them twice, two do neither.
        pytest.param([PROGRAMS / "fsdp1.py", "flat"], True, id="fsdp1"),
    ],
)
def test_a_scaled_replay_is_as_the_program_on_that_many_ranks(
    phantora: Phantora,
    trace: Trace,
    tmp_path: Path,
    command: list[str | Path],
    has_shards: bool,
) -> None:
    bench = tmp_path / "x.bench"
    _, benchmark = trace(command)
    scaled, done = scale(benchmark, Growth(Mesh({"dp": 2}), {"dp": 4}))
    assert done.collectives > 0
    assert (done.shards > 0) == has_shards
    write_benchmark(scaled, bench)
    options = ["--cluster", "h100", "--ranks", "4"]
    original = phantora.run(options, command)
    assert original.exit_code == 0, original.errors
    words: list[str | Path] = ["-m", "phantora_py", "replay", "run", str(bench)]
    replayed = phantora.run(options, words)
    assert replayed.exit_code == 0, replayed.errors
    found = score(replayed.path, original.path)
    assert found["kernels_equal"], found["kernels_differing"]
    assert found["collectives_equal"], found["collectives_differing"]
    assert found["collectives"]["original"] > 0
    assert abs(found["iteration_ns"]["change"]) < 0.03
