"""The summary: the public JSON object and its view on a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import COMMUNICATION, COPY, KERNEL, make_run, rank_memory, run_json, span_rows
from rich.console import Console

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.sections.iteration import clock_warning
from phantora_py.report.summary import summarise, summary_lines
from phantora_py.report.terminal import print_summary
from phantora_py.report.trust import trusted_share
from phantora_py.text.units import duration_text, percent_text, size_text
from sim_server.records import MarkerKind

GIB = 1 << 30
OOM = {"asked_bytes": 100 * GIB, "free_bytes": 70 * GIB, "site": "train.py:9 main"}
# The shape that users' programs rely on; docs/json.md has the words.
SHAPE: dict[str, Any] = {
    **{"schema": int, "ranks": int, "cluster": str, "command": list, "exit_code": int},
    "iterations": {
        **{"count": int, "median_ns": int, "p95_ns": int, "per_iteration_ns": list},
        "detected_by": str,
    },
    "breakdown_ns": dict.fromkeys(
        ("compute", "communication", "exposed_communication", "waiting_for_ranks", "host", "idle"),
        int,
    ),
    "critical_path": {
        "length_ns": int,
        "by_cause_ns": dict.fromkeys(
            ("kernels", "copies", "communication", "host", "waiting"), int
        ),
        "ranks": list,
    },
    "memory": {
        **{"capacity_bytes": int, "peak_reserved_bytes": list, "peak_allocated_bytes": list},
        "fits": bool,
    },
    "trust": {
        "gpu_time_share": dict.fromkeys(("measured", "interpolated", "modelled", "assumed"), float),
        "calls": dict.fromkeys(
            ("modelled", "ignored", "passthrough", "unsupported", "ranks", "started"), int
        ),
        "synthetic_reads": int,
        "nccl_not_modelled": list,
    },
    **{"host_time": str, "digest": str},
    "wall": dict.fromkeys(("total_s", "startup_s", "per_iteration_s", "core_seconds"), float)
    | {"hosts": int},
}


def make(path: Path, **changes: Any) -> RunData:
    """Two ranks, three iterations of which the last takes longer."""
    by_rank = [
        [
            (KERNEL, 0, 0, 1_000_000),
            (KERNEL, 900_000, 1_000_000, 2_000_000),
            (COMMUNICATION, 900_000, 2_000_000, 2_250_000),
            (COPY, 2_100_000, 2_250_000, 3_500_000),
        ]
    ] * 2
    timings = [
        {"name": name, "class": "gemm", "tier": tier, "duration_ns": 1}
        for name, tier in (("a", "modelled"), ("b", "assumed"))
    ]
    spans = span_rows(by_rank)
    kernels = spans["kind"] == KERNEL
    spans["id"][kernels] = spans["issue_ns"][kernels] == 900_000
    calls = {"modelled": {"cudaMalloc": 1200}, "ignored": {"x": 3}, "passthrough": {}}
    arguments: dict[str, Any] = {
        "timings": timings,
        "operations": [OPERATION] * 2,
        "calls": {"cudart": calls, "nccl": {**calls, "passthrough": {"y": 5}}},
        "synthetic": [
            {"rank": rank, "site": "train.py:50 main", "bytes": 16, "count": 4} for rank in (0, 1)
        ],
        **changes,
    }
    markers = [
        (rank, time_ns, MarkerKind.OPTIMIZER_STEP, "AdamW#0")
        for rank in (0, 1)
        for time_ns in (500_000, 950_000, 2_200_000)
    ]
    return make_run(path, by_rank, markers, spans=spans, **arguments)


OPERATION = {
    **{"kind": "all_reduce", "comm": 1, "bytes": 8, "members": [0, 1], "site": "train.py:9 main"},
    **{"arrivals_ns": [2_000_000] * 2, "moves_ns": 2_000_000, "ends_ns": [2_250_000] * 2},
}


def check_shape(value: Any, shape: Any, name: str = "summary") -> None:
    """Every key of `shape` is in `value`, with a value of its type."""
    if isinstance(shape, dict):
        for key, part in shape.items():
            check_shape(value[key], part, f"{name}.{key}")
    else:
        assert type(value) is shape, f"{name} is {value!r}"


def test_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the promised object, and nothing beside it."""
    make(tmp_path / "a.phr")
    assert main(["report", str(tmp_path / "a.phr"), "--json"]) == 0
    said = capsys.readouterr()
    check_shape(json.loads(said.out), SHAPE)
    assert said.err == ""


def test_figures(tmp_path: Path) -> None:
    """Each as counted by hand from the run."""
    summary = summarise(make(tmp_path / "a.phr"))
    assert summary["iterations"] == {
        **{"count": 2, "median_ns": 1_250_000, "p95_ns": 1_250_000, "warmup_ns": 1_000_000},
        **{"per_iteration_ns": [1_250_000, 1_250_000], "detected_by": "optimizer"},
        **{
            "holds": "1 optimizer step",
            "optimizer_steps": {"AdamW#0": 1},
            "micro_batches": 0,
            "micro_batches_range": (0, 0),
        },
        "rule": {"by": "optimizer", "name": "AdamW#0", "every": 1, "phase": 0},
        **{"apart": [], "script_clock": None, "held_share": pytest.approx(2.5 / 3.5)},
        "steps_outside": {},
        "timed_outside": {},
    }
    assert summary["breakdown_ns"] == {
        **{"compute": 1_125_000, "communication": 125_000, "exposed_communication": 125_000},
        **{"waiting_for_ranks": 0, "host": 0, "idle": 0},
    }
    assert summary["memory"] == {
        "capacity_bytes": 80 * GIB,
        "peak_reserved_bytes": [3 * GIB] * 2,
        "peak_allocated_bytes": [2 * GIB] * 2,
        "peak_device_bytes": [4 * GIB] * 2,
        "gpus": [],
        "fits": True,
        "out_of_memory": [],
        "kinds": None,
    }
    assert summary["trust"]["gpu_time_share"] == pytest.approx(
        {"measured": 0, "interpolated": 0, "modelled": 2.5 / 3.5, "assumed": 1 / 3.5}
    )
    assert trusted_share(summary) == pytest.approx(2.5 / 3.5)
    assert summary["trust"]["calls"] == {
        **{"modelled": 2400, "ignored": 6, "passthrough": 5},
        **{"unsupported": 0, "ranks": 2, "started": 2},
    }
    assert summary["trust"]["synthetic_reads"] == 8
    assert summary["virtual_time_ns"] == 3_500_000
    assert summary["wall"] is not None
    assert summary["wall"]["per_iteration_s"] == pytest.approx(2.0)


def test_variables_that_are_not_modelled(tmp_path: Path) -> None:
    """The report lists them; without any it has no such line."""
    variables = {"NCCL_ALGO": "Ring", "NCCL_NTHREADS": "64", "NCCL_TUNER_PLUGIN": "[x]"}
    run = make(tmp_path / "a.phr", settings={"nccl_environment": variables})
    listed = ["NCCL_NTHREADS=64", "NCCL_TUNER_PLUGIN=[x]"]
    assert summarise(run)["trust"]["nccl_not_modelled"] == listed
    buffer = io.StringIO()
    print_summary(tmp_path / "a.phr", Console(file=buffer, width=200))
    assert "  NCCL       not modelled: NCCL_NTHREADS=64   NCCL_TUNER_PLUGIN=[x]\n" in (
        buffer.getvalue()
    )
    make(tmp_path / "b.phr")
    buffer = io.StringIO()
    print_summary(tmp_path / "b.phr", Console(file=buffer, width=200))
    assert "NCCL" not in buffer.getvalue()


def test_no_iterations_are_null_and_not_zero(tmp_path: Path) -> None:
    """A program that knows no iterations, or never used its GPU."""
    summary = summarise(make_run(tmp_path / "a.phr"))
    assert summary["iterations"] == {
        **{"count": 0, "median_ns": None, "p95_ns": None, "warmup_ns": None},
        **{"per_iteration_ns": [], "detected_by": "none", "rule": None},
        **{
            "holds": "",
            "optimizer_steps": {},
            "micro_batches": 0,
            "micro_batches_range": (0, 0),
            "apart": [],
        },
        **{"script_clock": None, "held_share": 1.0, "steps_outside": {}, "timed_outside": {}},
    }
    assert set(summary["breakdown_ns"].values()) == {None}
    assert summary["wall"] is not None
    assert summary["wall"]["per_iteration_s"] is None
    assert summary["virtual_time_ns"] == 0
    assert set(summary["trust"]["gpu_time_share"].values()) == {0.0}


def test_what_did_not_fit(tmp_path: Path) -> None:
    """Rank, asked, free, Python line."""
    memory = {"capacity_bytes": 80 * GIB, "per_rank": [rank_memory(), rank_memory(oom=[OOM])]}
    summary = summarise(make(tmp_path / "a.phr", memory=memory))
    assert summary["memory"]["fits"] is False
    failure = {"rank": 1, "device": None, "retried": False, **OOM}
    assert summary["memory"]["out_of_memory"] == [failure]
    memory["per_rank"] = [rank_memory(), rank_memory(oom=[{**OOM, "retried": True}])]
    again = summarise(make(tmp_path / "b.phr", memory=memory))
    assert again["memory"]["fits"] is False
    assert any("rank 1 got memory by a retry" in line for line in summary_lines(again))


def test_an_unsupported_call_is_counted(tmp_path: Path) -> None:
    """It ended the run, so there is one."""
    failed = run_json(2, exit_code=3, message="rank 1 called cudaGraphLaunch")
    summary = summarise(make(tmp_path / "a.phr", run=failed))
    assert summary["trust"]["calls"]["unsupported"] == 1
    assert summary["exit_code"] == 3


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            [],
            "calls not known: no rank told: each was stopped, left by _exit or quick_exit, "
            "or is an execution trace; "
            "0 unsupported",
        ),
        ([1], "0 unsupported (of 1 of 2 ranks: those that were stopped have not told)"),
        ([0, 1], "2,400 modelled 6 ignored 5 passed through 0 unsupported"),
    ],
)
def test_calls_of_ranks_that_were_stopped(tmp_path: Path, told: list[int], line: str) -> None:
    """They are not known, which is not the same as none."""
    make(tmp_path / "a.phr", calls_of=told)
    printed = [" ".join(one.split()) for one in terminal_text(tmp_path / "a.phr").splitlines()]
    (calls,) = (one for one in printed if one.startswith("calls"))
    assert calls.endswith(line)


def test_a_program_that_used_no_gpu(tmp_path: Path) -> None:
    """Of one that starts its own ranks: nobody was stopped."""
    make(tmp_path / "a.phr", run={"own_ranks": True}, calls_of=[])
    assert "calls none: the program used no GPU; 0 unsupported" in " ".join(
        terminal_text(tmp_path / "a.phr").split()
    )


def test_a_run_that_was_stopped_when_steady(tmp_path: Path) -> None:
    """The report says that there could have been more."""
    steady = {"iterations": 3, "time_ns": 3_500_000, "median_ns": 1_000_000}
    make(tmp_path / "a.phr", run={"steady": steady})
    assert "stopped when steady, after iteration 3" in terminal_text(tmp_path / "a.phr")


def test_a_run_that_was_restarted(tmp_path: Path) -> None:
    """The report says how often, and how the attempt before ended."""
    make(tmp_path / "a.phr", run={"restarts": ["Rank 1 ended.", "Rank 0 ended."]})
    text = " ".join(terminal_text(tmp_path / "a.phr").split())
    assert "restarted 2 times the figures are of the last attempt" in text
    assert "before: Rank 0 ended." in text


def terminal_text(path: Path, **console: Any) -> str:
    """What a user sees."""
    buffer = io.StringIO()
    print_summary(path, Console(file=buffer, highlight=False, soft_wrap=True, **console))
    return buffer.getvalue()


def test_host_tensors_that_were_left(tmp_path: Path) -> None:
    """Lines of all ranks added up; the terminal names the biggest, and what was used."""
    entry = {"what": "random", "site": "a.py:1 f", "operations": 2, "bytes": GIB}
    skipped = [{"rank": rank, **entry} for rank in (0, 1)]
    skipped.append({"rank": 1, "what": "copy", "site": "a.py:2 f", "operations": 1, "bytes": GIB})
    used = [{"rank": rank, "site": "a.py:1 f", "tensors": 1, "bytes": 2048} for rank in (0, 1)]
    members = {"host_tensors": {"skipped": skipped, "used": used}}
    run = make(tmp_path / "a.phr", run={"host_tensors": "lazy"}, **members)
    assert summarise(run)["host_tensors"] == {
        **{"mode": "lazy", "operations": 5, "bytes": 3 * GIB, "most_of_a_rank_bytes": 2 * GIB},
        "sites": [
            {"what": "random", "site": "a.py:1 f", "operations": 4, "bytes": 2 * GIB},
            {"what": "copy", "site": "a.py:2 f", "operations": 1, "bytes": GIB},
        ],
        "used_bytes": 4096,
        "used_sites": [{"site": "a.py:1 f", "tensors": 2, "bytes": 4096}],
    }
    assert (
        "  host       2.00 GiB of tensors per rank not filled "
        "(5 operations; most random, at a.py:1 f)\n"
        "    of all ranks 4.00 KiB was used after all, as zeros "
        "(--host-tensors real fills them):\n"
        "    4.00 KiB that a.py:1 f was to fill\n"
    ) in terminal_text(tmp_path / "a.phr")


GOLDEN = """\
2 ranks on 1 node of h100   host time: fixed   python train.py
virtual iteration 1.25 ms (median of 2, p95 1.25 ms; found by optimizer; first one apart, ended at 1.00 ms)
  each is 1 optimizer step
  compute 90.0 %   communication 10.0 % (exposed 10.0 %)   waiting for ranks 0.0 %   host 0.0 %   idle 0.0 %
  critical path   copies 100.0 %   (of the last iteration)
  peak memory 4.00 GiB of 80.0 GiB (rank 0; PyTorch reserved 3.00 GiB, allocated 2.00 GiB)
Trust
  GPU time   0.0 % measured   0.0 % interpolated   71.4 % modelled   28.6 % assumed
  calls      2,400 modelled   6 ignored   5 passed through   0 unsupported
  values     8 values read back that no rule produced:
    8 at train.py:50 main
  isolation  T0: plain processes
wall 10.0 s (start-up 4.0 s), 18.5 core-seconds
"""  # noqa: E501 - as it is printed

GOLDEN_FAILED = """\
1 rank on 1 node of h100   host time: fixed   python train.py '[bold]x'
exit code 4   Rank 0 ended with exit code 1. [red]
virtual time 0 ns; no iteration after the first was found: nothing that the program does repeats three times (--iteration and phantora_py.mark_iteration() tell what one is)
  peak memory 4.00 GiB of 80.0 GiB (rank 0; PyTorch reserved 3.00 GiB, allocated 2.00 GiB)
  rank 0 ran out of memory: asked 100 GiB, free 70.0 GiB, at train.py:9 main
Trust
  GPU time   0.0 % measured   0.0 % interpolated   0.0 % modelled   0.0 % assumed
  calls      0 modelled   0 ignored   0 passed through   0 unsupported
  isolation  T0: plain processes
wall 10.0 s (start-up 4.0 s), 18.5 core-seconds
"""  # noqa: E501


def test_golden(tmp_path: Path) -> None:
    """The whole view of a run that finished."""
    make(tmp_path / "a.phr")
    assert terminal_text(tmp_path / "a.phr") == GOLDEN


def test_golden_failed(tmp_path: Path) -> None:
    """A run that failed; brackets in what the user wrote are no markup."""
    words = {"command": ["python", "train.py", "[bold]x"]}
    failed = {"exit_code": 4, "message": "Rank 0 ended with exit code 1. [red]"}
    memory = {"capacity_bytes": 80 * GIB, "per_rank": [rank_memory(oom=[OOM])]}
    make_run(tmp_path / "a.phr", run={**words, **failed}, memory=memory)
    assert terminal_text(tmp_path / "a.phr") == GOLDEN_FAILED


def test_colour_only_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, unless NO_COLOR is set; never into a file."""
    make(tmp_path / "a.phr", run={"exit_code": 4, "message": "m"})
    red = "\x1b[31m"
    on_terminal: dict[str, Any] = {"force_terminal": True, "color_system": "standard"}
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert red in terminal_text(tmp_path / "a.phr", **on_terminal)
    assert "\x1b" not in terminal_text(tmp_path / "a.phr")
    monkeypatch.setenv("NO_COLOR", "1")
    assert red not in terminal_text(tmp_path / "a.phr", **on_terminal)


def test_report_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Long lines are left to the terminal, so that they can be searched and copied."""
    make(tmp_path / "a.phr")
    assert main(["report", str(tmp_path / "a.phr")]) == 0
    assert capsys.readouterr().out == GOLDEN


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.00 us"),
        (9_996, "10.0 us"),
        (99_960, "100 us"),
        (999_600, "1.00 ms"),
        (12_345_678, "12.3 ms"),
        (123_456_789_000, "123 s"),
    ],
)
def test_durations(duration_ns: int, text: str) -> None:
    """Three significant digits and a unit, also where rounding carries."""
    assert duration_text(duration_ns) == text


def test_sizes_and_shares() -> None:
    """Binary units; a little is not nothing."""
    assert [size_text(size) for size in (5, 1 << 10, 1536 << 20)] == ["5 B", "1.00 KiB", "1.50 GiB"]
    assert [percent_text(share) for share in (0, 0.0005, 0.5, 1)] == [
        *("0.0 %", "< 0.1 %", "50.0 %", "100.0 %"),
    ]


def test_what_a_run_took_of_the_machine(tmp_path: Path) -> None:
    """Median and maximum of the ranks, and everything together; nothing if nobody was weighed."""
    weighed = {"pss_bytes": {"0": 100 << 20, "2": 300 << 20}, "total_bytes": 1 << 30}
    run = run_json(3, host_memory=weighed)
    assert summarise(make(tmp_path / "a.phr", run=run))["host_memory"] == {
        "median_rank_pss_bytes": 200 << 20,
        "max_rank_pss_bytes": 300 << 20,
        "ranks_weighed": 2,
        "total_pss_bytes": 1 << 30,
    }
    buffer = io.StringIO()
    print_summary(tmp_path / "a.phr", Console(file=buffer, width=200))
    assert ", memory 1.00 GiB (PSS; a rank 200 MiB, at most 300 MiB)\n" in buffer.getvalue()
    weighed["pss_bytes"] = {}
    run = run_json(3, host_memory=weighed)
    assert summarise(make(tmp_path / "b.phr", run=run))["host_memory"] is None


@pytest.mark.parametrize(
    ("clock_ns", "found"),
    [(4_550_000, "4.55 ms: 35.9 % less"), (10_000_000, "10.0 ms: 40.8 % more")],
)
def test_how_far_the_programs_clock_is_off(clock_ns: int, found: str) -> None:
    """Its time is so much less or more than ours, 7.1 ms."""
    clock = {"site": "a.py:1 f", "reads": 4, "iteration_ns": clock_ns}
    told: Any = {"script_clock": clock | {"difference": 7_100_000 / clock_ns - 1}}
    assert found in str(clock_warning(told))
