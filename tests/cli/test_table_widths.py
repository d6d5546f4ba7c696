"""Tables in terminals of 80 and of 60 columns."""

from __future__ import annotations

import dataclasses
import io
import sys
from pathlib import Path
from typing import Any

import pytest
from caches import H100, measurement, product
from compared_runs import write_run
from made_runs import rank_memory
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from phantora_py.agent.states import Doing, RankState
from phantora_py.cli import main, program_check
from phantora_py.cli.rank_table import rank_table
from phantora_py.coverage.forecast import Gap, Package
from sim_server.timing_cache import Failure, TimingCache

FOLDERS = "/home/somebody/a/rather/long/way/down/through/many/folders/of/a/project/to/the/script/"
SITE = f"{FOLDERS}of_the_training_with_a_name_of_its_own.py:1234 forward_and_backward_of_a_layer"
KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >"
)
SYMBOL = (
    "_ZN7cutlass6KernelI61cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8Ev"
)
GIB = 1 << 30


@pytest.fixture(params=[80, 60])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Standard output is taken for a terminal of this width."""
    be_terminal(monkeypatch, request.param)
    return int(request.param)


def be_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """What rich asks the environment for."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)


def shown(capsys: pytest.CaptureFixture[str], width: int, *words: object, code: int = 0) -> str:
    """What is printed, without colours, white space made single. No line is wider than the
    terminal, and nothing is cut off.
    """
    assert main([*map(str, words)]) == code
    text = Text.from_ansi(capsys.readouterr().out).plain
    assert [line for line in text.splitlines() if cell_len(line.rstrip()) > width] == []
    assert "…" not in text
    return " ".join(text.split())


def run_file(path: Path, iterations_ns: int = 90_123, **changes: Any) -> Path:
    """A run with long names and paths, and large figures."""
    timings = [
        {"name": KERNEL, "class": "elementwise", "tier": "interpolated", "duration_ns": 1},
        {"name": SYMBOL, "class": "convolution", "tier": "interpolated", "duration_ns": 1},
    ]
    oom = {"asked_bytes": 100 * GIB, "free_bytes": 70 * GIB, "site": SITE}
    calls = {"modelled": {"cudaMalloc": 123_456_789}, "ignored": {"x": 3_000_000}}
    table = {
        "title": "communicator 1 (ranks 0-63), AllReduce number 2 of 4 x float32 " + SITE,
        "rows": [
            {"ranks": [0], "state": "waits here", "since_ns": 161_575_030, "site": SITE},
            {"ranks": [1], "state": "1 missing; [which]", "since_ns": None, "site": ""},
        ],
    }
    unsupported = [
        {
            **{"library": "cudart", "symbol": "cudaGraphConditionalHandleCreate", "detail": SYMBOL},
            **{"answer": "success", "site": SITE, "count": 12_345, "rank": 0},
        }
    ]
    arguments: dict[str, Any] = {
        "timings": timings,
        "run": {
            "deadlock": [table],
            "command": ["python", f"{FOLDERS}train.py", "--config", f"{FOLDERS}a.json"],
            "isolation": {"tier": "T0", "reason": f"{FOLDERS}x is not there"},
            "cluster_name": "h100",
            "message": f"Rank 1 ended at {SITE}.",
            "exit_code": 4,
            "unsupported": "success",
            "cluster": {"gpu": "h100", "nic": {"per_node": 8}},
        },
        "calls": {"cudart": {**calls, "passthrough": {}}},
        "synthetic": [{"rank": 0, "site": SITE, "bytes": 16, "count": 4_000}],
        "memory": {"capacity_bytes": 80 << 30, "per_rank": [rank_memory(oom=[oom])] * 2},
        "unsupported": unsupported,
        "host_tensors": {
            "skipped": [{"rank": 0, "what": "random", "site": SITE, "operations": 2, "bytes": GIB}],
            "used": [{"rank": 0, "site": SITE, "tensors": 1, "bytes": 2048}],
        },
    }
    arguments["run"]["host_tensors"] = "lazy"
    return write_run(
        path,
        [iterations_ns] * 3,
        communicates_ns=7_123,
        computes_ns=iterations_ns // 3,
        **{**arguments, **changes},
    )


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], width: int) -> None:
    """Sections and tables of a deadlock fit; paths are broken, figures are not."""
    text = shown(capsys, width, "report", run_file(tmp_path / "a.phr"))
    assert all(one in text for one in ("123,456,789 modelled", "162 ms", "100 GiB"))


def test_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str], width: int) -> None:
    """Names are broken; time and share stay whole."""
    text = shown(capsys, width, "report", run_file(tmp_path / "a.phr"), "--kernels")
    assert "30.0 us 100.0 %" in text
    assert "void" in text


def test_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str], width: int) -> None:
    """Runs with long names, and kernels that changed."""
    first = run_file(tmp_path / f"{'long-name-' * 8}0.phr")
    other = run_file(tmp_path / f"{'long-name-' * 8}1.phr", 140_000, kernel=1)
    text = shown(capsys, width, "compare", first, other)
    assert all(one in text for one in ("4.00 GiB (5.0 %)", "1 x, 46.7 us +46.7 us"))


@pytest.mark.parametrize(
    ("what", "whole"),
    [("ls", {"580.105.08 13.2"}), ("show", {"237 us 0.4 % 346 us 2", "13.2"})],
)
def test_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], width: int, what: str, whole: set[str]
) -> None:
    """Long signatures, and failures with long reasons."""
    long = dataclasses.replace(H100, libraries="cublas 13.4.1.2, cudnn 9.10.2.21, cutlass 4.2.1")
    warm_ns = (234_567.0, 238_567.0)
    entry = measurement(product(8192), *warm_ns, cold_ns=(345_678.0,), origin=f"phantora {SITE}")
    failure = Failure(product(9), f"the executor died of it: {SITE}", entry.date, "phantora run")
    with TimingCache(tmp_path / "c", write=True) as cache:
        cache.add([(long, entry), (long, failure)])
    text = shown(capsys, width, "cache", what, tmp_path / "c")
    assert all(one in text for one in whole)


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ([], "unsupported"),
        (["--torch"], "cusolver linalg"),
        (["--library", "cudnn"], "partial"),
        (["--library", "nccl"], "partial"),
    ],
)
def test_coverage(
    capsys: pytest.CaptureFixture[str], width: int, words: list[str], whole: str
) -> None:
    """Long names of calls, and notes."""
    assert whole in shown(capsys, width, "coverage", *words)


@pytest.mark.parametrize("words", [["list"], ["show", "h100"], ["show", "gb200"]])
def test_cluster(capsys: pytest.CaptureFixture[str], width: int, words: list[str]) -> None:
    """Lines are broken between words."""
    assert "GB/s" in shown(capsys, width, "cluster", *words)


def test_doctor(capsys: pytest.CaptureFixture[str], width: int) -> None:
    """A long path of an interpreter is broken."""
    text = shown(capsys, width, "doctor", "--python", f"{FOLDERS}python", code=2)
    assert "missing" in text


def test_doctor_of_a_command(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Long names of packages and of calls."""
    gaps = {Gap("cudart", f"{call}{'X' * 50}", "looked-up") for call in ("cudaA", "cudaB")}
    package = Package(f"{'package_' * 6}", True, gaps, [f"it cannot work: {SITE}"])
    monkeypatch.setattr(program_check, "forecast", lambda _: [package])
    (tmp_path / "train.py").write_text("")
    words = [sys.executable, tmp_path / "train.py", "--config", SITE]
    text = shown(capsys, width, "doctor", "--", *words, code=3)
    assert "cudart" in text


def test_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns are those of nccl-tests, which take 75."""
    be_terminal(monkeypatch, 80)
    shown(capsys, 80, "bench", "all_reduce", "--ranks", 8, "-e", "4G", "-f", 8)


@pytest.mark.parametrize("width", [80, 60])
def test_ranks_of_a_run(width: int) -> None:
    """The table that `--live` shows, of a few ranks and of many."""
    for count in (4, 500):
        doings = [*Doing]
        states = [RankState(doings[n % len(doings)], 123_456_789 * n) for n in range(count)]
        console = Console(width=width, file=io.StringIO())
        console.print(rank_table(states))
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
        assert max(map(cell_len, text.splitlines())) <= width
        assert "…" not in text
        assert "virtual" in text
