"""Samples and tokens a second, MFU and HFU: runs whose figures are computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from made_runs import KERNEL, Marker, Span, make_run

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.summary import summarise, summary_lines
from sim_server.records import MarkerKind

STEP_NS = 1000
STEPS = 5
PRODUCT = {"name": "k", "class": "gemm", "tier": "modelled", "duration_ns": 400}
BF16 = PRODUCT | {"flops": 10**8, "type": "bf16"}
Batch = tuple[int, int, str, str, int, int]


def spans_of_a_rank(offset_ns: int = 0) -> list[Span]:
    """Two kernels a step, which end before the step's mark."""
    begins_ns = [step * STEP_NS + offset_ns for step in range(STEPS)]
    first = [(KERNEL, at + 10, at + 10, at + 410) for at in begins_ns]
    return first + [(KERNEL, at + 500, at + 500, at + 900) for at in begins_ns]


def steps_of(ranks: Sequence[int]) -> list[Marker]:
    return [
        (rank, (step + 1) * STEP_NS, MarkerKind.OPTIMIZER_STEP, "SGD#0")
        for rank in ranks
        for step in range(STEPS)
    ]


def training(path: Path, ranks: int = 1, steppers: Sequence[int] = (), **members: Any) -> RunData:
    """Each rank has two products of 0.1 GFLOP a step, which takes 1000 ns."""
    members = {"timings": [BF16]} | members
    marks = steps_of(steppers or range(ranks))
    return make_run(path / "a.phr", [spans_of_a_rank()] * ranks, marks, **members)


def batches(rank: int, source: str, key: str, samples: int, tokens: int = 0) -> list[Batch]:
    """One each step, right after the mark of the step before."""
    return [(rank, step * STEP_NS, source, key, samples, tokens) for step in range(STEPS)]


def passes_of(ranks: Sequence[int], a_step: int) -> list[Marker]:
    """Backward passes, the last of a step right before its mark."""
    return [
        (rank, (step + 1) * STEP_NS - 100 * (a_step - number), MarkerKind.BACKWARD, "t.py:1 train")
        for rank in ranks
        for step in range(STEPS)
        for number in range(a_step)
    ]


def groups(*ranks: list[int], parts: int = 1) -> list[dict[str, Any]]:
    """Data-parallel ones."""
    return [{"ranks": one, "parts": parts} for one in ranks]


def throughput(data: RunData) -> dict[str, Any]:
    found = summarise(data)["throughput"]
    assert found is not None
    return dict(found)


def test_products_are_a_share_of_the_peak(tmp_path: Path) -> None:
    """2e8 FLOPs in 1000 ns are 2e14 a second, a fifth of the peak; of two ranks, too."""
    for ranks in (1, 2):
        found = throughput(training(tmp_path, ranks))["utilization"]
        assert found["executed_flops"] == found["model_flops"] == ranks * 2e8
        assert found["hfu"] == found["mfu"] == pytest.approx(0.2)
        assert (found["type"], found["peak_flops_per_s"]) == ("bf16", ranks * 1e15)


def test_iterations_that_last_differently_share_their_work(tmp_path: Path) -> None:
    """Work is that of the mean iteration, and so is the time: no GPU does more than it can."""
    lasted_ns = [100, 100, 100, 100, 900, 900]
    ends_ns = [sum(lasted_ns[: number + 1]) for number in range(len(lasted_ns))]
    spans = [
        (KERNEL, end_ns - one + 1, end_ns - one + 1, end_ns - 1)
        for one, end_ns in zip(lasted_ns, ends_ns, strict=True)
    ]
    marks = [(0, end_ns, MarkerKind.OPTIMIZER_STEP, "SGD#0") for end_ns in ends_ns]
    data = make_run(tmp_path / "a.phr", [spans], marks, timings=[BF16])
    share = throughput(data)["utilization"]
    mean_s = 420e-9
    assert share["hfu"] == pytest.approx(1e8 / share["peak_flops_per_s"] / mean_s)


def test_what_is_computed_again_is_none_of_the_model(tmp_path: Path) -> None:
    """The second kernel of each step is issued between two marks, as is none of the first."""
    again = [
        [0, step * STEP_NS + at, event]
        for step in range(STEPS)
        for at, event in ((450, "begin"), (500, "end"))
    ]
    found = throughput(training(tmp_path, recomputations=again))["utilization"]
    assert (found["executed_flops"], found["model_flops"]) == (2e8, 1e8)
    assert (found["hfu"], found["mfu"]) == (pytest.approx(0.2), pytest.approx(0.1))


@pytest.mark.parametrize(
    ("event", "run"), [("compiled", {}), ("begin", {"host_time": "off"}), ("end", {})]
)
def test_what_cannot_be_told_apart_is_not_told(
    tmp_path: Path, event: str, run: dict[str, Any]
) -> None:
    """Checkpoints in compiled graphs, or without host time; the work of the GPU is known."""
    data = training(tmp_path, recomputations=[[0, 10, event]], run=run)
    found = throughput(data)["utilization"]
    assert found["hfu"] == pytest.approx(0.2)
    is_known = event == "end"
    assert (found["mfu"] is not None) == is_known
    assert any("MFU" in line for line in summary_lines(summarise(data))) == is_known


def test_the_peak_is_that_of_most_products(tmp_path: Path) -> None:
    """Half as many in single precision count, too."""
    other = PRODUCT | {"flops": 5 * 10**7, "type": "f32"}
    data = training(tmp_path, timings=[BF16, other])
    spans = data.spans.copy()
    spans["id"] = spans["issue_ns"] % STEP_NS == 500
    data = make_run(
        *(tmp_path / "b.phr", [[]], steps_of([0])),
        spans=spans,
        timings=[BF16, other],
    )
    found = throughput(data)["utilization"]
    assert found["type"] == "bf16"
    assert found["executed_flops"] == 1.5e8
    assert found["hfu"] == pytest.approx(0.15)


def test_products_of_unknown_sizes_are_named(tmp_path: Path) -> None:
    """The figures are then at least so high."""
    hidden = PRODUCT | {"flops": None, "type": ""}
    spans = training(tmp_path).spans.copy()
    spans["id"] = spans["issue_ns"] % STEP_NS == 500
    data = make_run(
        *(tmp_path / "b.phr", [[]], steps_of([0])),
        spans=spans,
        timings=[BF16, hidden],
    )
    summary = summarise(data)
    assert summary["throughput"] is not None
    found = summary["throughput"]["utilization"]
    assert found is not None
    assert (found["executed_flops"], found["hidden_share"]) == (1e8, 0.5)
    (line,) = [line for line in summary_lines(summary) if "HFU" in line]
    assert "HFU at least 10.0 %" in line
    assert "50.0 % of the kernels' time, not counted" in line


@pytest.mark.parametrize(
    "members",
    [
        {"timings": [PRODUCT]},
        {"timings": [PRODUCT | {"flops": None, "type": ""}]},
        {"timings": [BF16 | {"type": "f4"}]},
    ],
)
def test_without_figures_nothing_is_said(tmp_path: Path, members: dict[str, Any]) -> None:
    """Files of earlier versions, hidden sizes alone, types whose peak is not known."""
    data = training(tmp_path, **members)
    assert throughput(data) == {"samples": None, "tokens": None, "utilization": None}
    assert not [line for line in summary_lines(summarise(data)) if "HFU" in line or "/s" in line]


def test_tokens_are_those_of_the_table_that_is_asked_most(tmp_path: Path) -> None:
    """Positions are looked up, too; 4 samples of 128 tokens in 1000 ns are 512e6 a second."""
    rows = batches(0, "embedding", "512x64", 4, 512) + batches(0, "embedding", "128x64", 1, 128)
    found = throughput(training(tmp_path, batches=rows))
    assert found["tokens"] == {
        **{"per_iteration": 512.0, "per_s": pytest.approx(512e6)},
        **{"ranks": [0], "is_whole": True, "found_by": "embedding"},
    }
    assert found["samples"]["per_iteration"] == 4


def test_distances_between_tokens_are_no_tokens(tmp_path: Path) -> None:
    """T5 looks up 128 by 128 of them, in a table with a number for each of 8 heads."""
    rows = batches(0, "embedding", "512x64", 4, 512) + batches(0, "embedding", "32x8", 128, 16384)
    found = throughput(training(tmp_path, batches=rows))
    assert (found["tokens"]["per_iteration"], found["samples"]["per_iteration"]) == (512, 4)


@pytest.mark.parametrize(
    ("lookups", "passes", "samples"), [(2, 1, 4), (4, 2, 8), (2, 2, 8), (3, 2, 12), (2, 0, 8)]
)
def test_what_encoder_and_decoder_look_up_are_the_same_samples(
    tmp_path: Path, lookups: int, passes: int, samples: int
) -> None:
    """Lookups of 4 samples each, in one table; of a backward pass, if each has as many."""
    marks = [
        (0, step * STEP_NS + 950, MarkerKind.BACKWARD, "train.py:9 main")
        for step in range(STEPS)
        for _ in range(passes)
    ]
    rows = sorted(batches(0, "embedding", "512x64", 4, 40) * lookups)
    data = make_run(
        *(tmp_path / "a.phr", [spans_of_a_rank()], sorted(marks + steps_of([0]))),
        timings=[BF16],
        batches=rows,
    )
    found = throughput(data)
    assert found["samples"]["per_iteration"] == samples
    assert found["tokens"]["per_iteration"] == 40 * lookups


def test_micro_batches_add_up(tmp_path: Path) -> None:
    """Also those that are taken when the mark of the step before is set."""
    rows = batches(0, "loader", "0", 4) * 2
    found = throughput(training(tmp_path, batches=rows))
    assert found["samples"]["per_iteration"] == 8
    assert found["tokens"] is None


def test_part_of_a_batch_is_set_apart(tmp_path: Path) -> None:
    """An epoch's last batch is other work; a loader that runs ahead is not."""
    rows = batches(0, "embedding", "9x9", 8, 80)
    last = (0, (STEPS - 1) * STEP_NS, "embedding", "9x9", 2, 20)
    data = training(tmp_path, batches=[*rows[:-1], last])
    iterations = summarise(data)["iterations"]
    assert (iterations["count"], len(iterations["apart"])) == (3, 1)
    assert throughput(data)["tokens"]["per_iteration"] == 80
    data = training(tmp_path, batches=batches(0, "loader", "0", 8)[::2] * 2)
    assert summarise(data)["iterations"]["count"] == 4
    assert throughput(data)["samples"]["per_iteration"] == 8


def test_a_loader_says_what_a_sample_is(tmp_path: Path) -> None:
    """The model may see each sample several times."""
    rows = batches(0, "embedding", "9x9", 8, 80) + batches(0, "loader", "0", 4, 44)
    found = throughput(training(tmp_path, batches=rows))
    assert (found["samples"]["per_iteration"], found["samples"]["found_by"]) == (4, "loader")
    assert (found["tokens"]["per_iteration"], found["tokens"]["found_by"]) == (80, "embedding")


def test_groups_that_see_the_same_data_count_once(tmp_path: Path) -> None:
    """Ranks 0 and 2 have different data, 1 and 3 the same as these."""
    rows = [row for rank in range(4) for row in batches(rank, "embedding", "9x9", 2, 20)]
    data = training(tmp_path, 4, batches=rows, data_parallel=groups([0, 2], [1, 3], [1]))
    tokens = throughput(data)["tokens"]
    assert (tokens["per_iteration"], tokens["ranks"]) == (40, [0, 2])


def test_stages_that_look_nothing_up_do_not_count(tmp_path: Path) -> None:
    """The first stage of a pipeline takes the data: ranks 0 and 1."""
    rows = [row for rank in (0, 1) for row in batches(rank, "embedding", "9x9", 2, 20)]
    data = training(tmp_path, 4, batches=rows, data_parallel=groups([0, 1], [2, 3]))
    tokens = throughput(data)["tokens"]
    assert (tokens["per_iteration"], tokens["ranks"], tokens["is_whole"]) == (40, [0, 1], True)


def test_ranks_that_share_sequences_share_samples(tmp_path: Path) -> None:
    """Two of four ranks have halves of the same two samples."""
    rows = [row for rank in range(4) for row in batches(rank, "embedding", "9x9", 2, 20)]
    shared = groups([0, 1], [2, 3], parts=2)
    found = throughput(
        training(tmp_path, 4, batches=rows, data_parallel=shared + groups([*range(4)]))
    )
    assert (found["tokens"]["per_iteration"], found["samples"]["per_iteration"]) == (80, 4)
    found = throughput(training(tmp_path, 4, batches=rows, data_parallel=shared))
    assert not found["tokens"]["is_whole"]


IMAGES = BF16 | {"images": 32}


@pytest.mark.parametrize(
    ("passes", "optimizers", "samples"), [(1, 1, 32), (2, 1, None), (1, 2, None), (0, 1, None)]
)
def test_a_first_layer_tells_of_images(
    tmp_path: Path, passes: int, optimizers: int, samples: int | None
) -> None:
    """If it is computed once for each backward pass, and one optimizer steps."""
    marks = [
        (0, step * STEP_NS + at, kind, name)
        for step in range(STEPS)
        for at, kind, name in (
            *[(950, MarkerKind.BACKWARD, "train.py:9 main")] * passes,
            *[(STEP_NS, MarkerKind.OPTIMIZER_STEP, f"SGD#{n}") for n in range(optimizers)],
        )
    ]
    spans = training(tmp_path).spans.copy()
    spans["id"] = spans["issue_ns"] % STEP_NS == 500
    data = make_run(tmp_path / "b.phr", [[]], marks, spans=spans, timings=[BF16, IMAGES])
    found = throughput(data)["samples"]
    assert (found and found["per_iteration"]) == samples
    assert found is None or found["found_by"] == "convolution"


def test_one_rank_s_tokens_are_told_where_no_wrapper_says_more(tmp_path: Path) -> None:
    """Whether others have the same data is not known; the line says so."""
    rows = [row for rank in range(2) for row in batches(rank, "embedding", "9x9", 2, 20)]
    data = training(tmp_path, 2, batches=rows)
    tokens = throughput(data)["tokens"]
    assert (tokens["per_iteration"], tokens["ranks"], tokens["is_whole"]) == (20, [0], False)
    (line,) = [line for line in summary_lines(summarise(data)) if "tokens/s" in line]
    assert "of rank 0 alone" in line
    assert "--per-iteration" in line


def test_one_process_has_all_tokens(tmp_path: Path) -> None:
    """nn.DataParallel on the GPUs of a node: no other rank could have other data."""
    rows = batches(0, "embedding", "9x9", 2, 20)
    data = training(tmp_path, 2, [0], batches=rows, run={"own_ranks": True})
    spans = data.spans.compress(data.spans["rank"] == 0)
    data = training(tmp_path, 2, [0], batches=rows, run={"own_ranks": True}, spans=spans)
    tokens = throughput(data)["tokens"]
    assert (tokens["per_iteration"], tokens["ranks"], tokens["is_whole"]) == (20, [0], True)


def test_ranks_without_marks_count(tmp_path: Path) -> None:
    """Their iterations are those of the rank that has some."""
    rows = [row for rank in range(2) for row in batches(rank, "loader", "0", 4)]
    shifted = [(rank, time_ns + 300, *rest) for rank, time_ns, *rest in rows]
    data = make_run(
        *(tmp_path / "a.phr", [spans_of_a_rank()] * 2),
        [(0, at, MarkerKind.CLOCK_READ, "train.py:3 main") for _, at, _, _ in steps_of([0])],
        timings=[BF16],
        batches=shifted,
        data_parallel=groups([0, 1]),
    )
    assert throughput(data)["samples"]["per_iteration"] == 8


def test_the_user_can_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all ranks together; what was found is not shown then."""
    data = training(tmp_path, batches=batches(0, "loader", "0", 4))
    command = ["report", str(data.path), "--per-iteration", "16x8 tokens"]
    assert main([*command, "--per-iteration", "16"]) == 0
    printed = capsys.readouterr().out
    assert "128,000,000 tokens/s   128 an iteration, as told" in printed
    assert "16,000,000 samples/s   16 an iteration, as told" in printed


@pytest.mark.parametrize("texts", [["3 images"], ["3", "4"]])
def test_what_a_report_does_not_have_is_refused(
    tmp_path: Path, texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Naming the amount."""
    data = training(tmp_path)
    options = [word for text in texts for word in ("--per-iteration", text)]
    assert main(["report", str(data.path), *options]) == 2
    assert f"--per-iteration '{texts[-1]}': a report has" in capsys.readouterr().err


def test_a_page_has_them(tmp_path: Path) -> None:
    """As tiles at the iteration."""
    data = training(tmp_path, batches=batches(0, "loader", "0", 4))
    out = tmp_path / "page.html"
    assert main(["report", str(data.path), "--html", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "<b>20.0 %</b><span>MFU, of 1,000 TFLOP/s a GPU, dense bf16</span>" in page
    assert "<b>4,000,000</b><span>samples a second</span>" in page


@pytest.mark.parametrize("waiting", [0, 1])
def test_what_a_loader_fetches_ahead_is_of_the_pass_that_it_is_for(
    tmp_path: Path, waiting: int
) -> None:
    """Each fetch is one ahead, two at the beginning of each of two epochs: none at their ends."""
    passes = passes_of([0], 2)
    sizes = [8] * (len(passes) - 1) + [4] + [8] * waiting
    fetched_ns = [0, *(time_ns - 250 for _, time_ns, *_ in passes)][: len(sizes)]
    fetched_ns[5] = fetched_ns[4]
    loaded = [(0, at, "loader", "0", size, 0) for at, size in zip(fetched_ns, sizes, strict=True)]
    marks = sorted([*steps_of([0]), *passes], key=lambda one: one[1])
    data = make_run(tmp_path / "a.phr", [spans_of_a_rank()], marks, timings=[BF16], batches=loaded)
    assert throughput(data)["samples"]["per_iteration"] == 16
    apart = [one["iteration"] for one in summarise(data)["iterations"]["apart"]]
    assert apart == [STEPS - 1]


def test_a_loader_with_two_batches_for_a_pass_is_taken_as_it_comes(tmp_path: Path) -> None:
    marks = sorted([*steps_of([0]), *passes_of([0], 1)], key=lambda one: one[1])
    loaded = batches(0, "loader", "0", 8) * 2
    data = make_run(tmp_path / "a.phr", [spans_of_a_rank()], marks, timings=[BF16], batches=loaded)
    assert throughput(data)["samples"]["per_iteration"] == 16
