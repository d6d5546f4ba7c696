"""Where iterations begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from made_runs import COMMUNICATION, COPY, HOST_WAIT, KERNEL, Marker, Span, make_run, span_rows

from phantora_py.data import RunData
from phantora_py.report.iterations import Iterations, find_iterations
from phantora_py.report.launch_period import find_repetition
from phantora_py.report.sections.iteration import apart_text, warnings
from phantora_py.report.summary import summarise
from sim_server.records import MarkerKind

PUSH, POP = MarkerKind.RANGE_PUSH, MarkerKind.RANGE_POP


def find(
    directory: Path, markers: Sequence[Marker], by_rank: Sequence[Sequence[Span]] = ((),)
) -> Iterations:
    return find_iterations(make_run(directory / "a.phr", by_rank, markers))


def steps(rank: int, *times_ns: int, name: str = "AdamW#0") -> list[Marker]:
    return [(rank, time_ns, MarkerKind.OPTIMIZER_STEP, name) for time_ns in times_ns]


def test_optimizer_steps_end_iterations(tmp_path: Path) -> None:
    """The first is warm-up and stands apart."""
    found = find(tmp_path, steps(0, 1000, 1300, 1700))
    assert found.detected_by == "optimizer"
    assert found.warmup_ns == 1000
    assert found.durations_ns.tolist() == [300, 400]
    assert found.count == 2


def test_of_several_optimizers_the_first_counts(tmp_path: Path) -> None:
    """Each steps once in an iteration, so all would count double."""
    markers = steps(0, 110, 210, name="SGD#1") + steps(0, 100, 200)
    assert find(tmp_path, markers).durations_ns.tolist() == [100]


def test_an_explicit_marker_beats_optimizer_steps(tmp_path: Path) -> None:
    """The program says itself what an iteration is."""
    marked: list[Marker] = [(0, time_ns, MarkerKind.ITERATION, "x") for time_ns in (150, 350)]
    found = find(tmp_path, steps(0, 100, 200, 300) + marked)
    assert (found.detected_by, found.durations_ns.tolist()) == ("marker", [200])


def test_nvtx_ranges_end_iterations(tmp_path: Path) -> None:
    """The outermost repeated range; ranges inside it and the one around all do not count."""
    markers: list[Marker] = [(0, 0, PUSH, "training")]
    for start_ns in (100, 200, 320):
        markers += [
            (0, start_ns, PUSH, "step"),
            (0, start_ns + 1, PUSH, "forward"),
            (0, start_ns + 20, POP, ""),
            (0, start_ns + 80, POP, ""),
        ]
    found = find(tmp_path, [*markers, (0, 999, POP, "")])
    assert found.detected_by == "nvtx"
    assert found.boundaries_ns.tolist() == [180, 280, 400]


def test_an_unpaired_end_of_a_range_is_nothing(tmp_path: Path) -> None:
    """NVTX lets a program pop what it never pushed."""
    assert find(tmp_path, [(0, 5, POP, ""), (0, 6, PUSH, "once")]).detected_by == "none"


def test_nothing_to_go_by(tmp_path: Path) -> None:
    """No iterations are made up."""
    found = find(tmp_path, [], [[(KERNEL, 0, 0, 10)]])
    assert (found.detected_by, found.count, found.warmup_ns) == ("none", 0, None)


def test_a_rank_that_failed_had_its_host_ahead(tmp_path: Path) -> None:
    """Iterations that the host passed, and whose work nobody simulated, are none: they would take
    no time.
    """
    work: list[Span] = [
        (KERNEL, issue_ns, 10 * issue_ns, 10 * issue_ns + 90) for issue_ns in range(5, 40, 10)
    ]
    marks = steps(0, *range(10, 100, 10))
    whole = make_run(tmp_path / "whole.phr", [work], marks)
    assert find_iterations(whole).durations_ns.tolist() == [100, 100, 100, 0, 0, 0, 0, 0]
    cut = make_run(tmp_path / "cut.phr", [work], marks, exits={"0": 3})
    assert find_iterations(cut).durations_ns.tolist() == [100, 100]


def test_iterations_without_work_are_set_apart(tmp_path: Path) -> None:
    """They take no time, of which no share is communication."""
    work: list[Span] = [
        (KERNEL, issue_ns, 10 * issue_ns, 10 * issue_ns + 90) for issue_ns in range(5, 120, 10)
    ]
    whole = make_run(tmp_path / "a.phr", [work], steps(0, *range(10, 160, 10)))
    assert "3 iterations do other work" in apart_text(summarise(whole)["iterations"], 0)


@pytest.mark.parametrize("known", [2, 4])
def test_a_rank_that_was_stopped_when_steady_had_its_host_ahead(tmp_path: Path, known: int) -> None:
    """It also waited for its device then. What had ended by then counts, though nothing follows."""
    work: list[Span] = [
        (KERNEL, issue_ns, 10 * issue_ns, 10 * issue_ns + 90) for issue_ns in range(5, 40, 10)
    ]
    work.append((HOST_WAIT, 85, 85, 440))
    marks = steps(0, *range(10, 100, 10))
    steady = {"iterations": known, "median_ns": 100, "time_ns": 440}
    stopped = make_run(tmp_path / "stopped.phr", [work], marks, run={"steady": steady})
    assert find_iterations(stopped).durations_ns.tolist() == [100] * (max(known, 3) - 1)
    iterations = summarise(stopped)["iterations"]
    assert apart_text(iterations, 0) == ""
    assert iterations["steps_outside"] == {}


@pytest.mark.parametrize(
    ("rollout_ns", "said"), [(900, ": with them the mean is 300 ns"), (110, "below")]
)
def test_what_is_set_apart_is_in_a_mean_that_is_said(
    tmp_path: Path, rollout_ns: int, said: str
) -> None:
    """Steps of a policy after each rollout: four of them take much longer than four medians."""
    work: list[Span] = []
    marks, now_ns = [], 0
    for number in range(13):
        launches, lasts_ns = (9, rollout_ns) if number % 4 == 0 else (1, 100)
        work += [(KERNEL, now_ns + 1, now_ns + 1, now_ns + lasts_ns)] * launches
        now_ns += lasts_ns
        marks.append(now_ns)
    run = make_run(tmp_path / "a.phr", [work], steps(0, *marks))
    assert apart_text(summarise(run)["iterations"], 0).endswith(said)


def test_communication_of_what_is_set_apart_is_said(tmp_path: Path) -> None:
    """Local SGD: replicas are averaged after every fourth step, and never in the others."""
    work: list[Span] = []
    marks, now_ns = [], 0
    for number in range(13):
        work += [(KERNEL, now_ns + 1, now_ns + 1, now_ns + 80)] * 10
        now_ns += 80
        if number % 4 == 0:
            work += [(COMMUNICATION, now_ns + 1, now_ns + 1, now_ns + 21)] * 5
            now_ns += 21
        marks.append(now_ns)
    summary = summarise(make_run(tmp_path / "a.phr", [work], steps(0, *marks)))
    assert summary["breakdown_ns"]["communication"] == 0
    assert [one["communication_ns"] for one in summary["iterations"]["apart"]] == [20] * 3
    for usual_ns, said in ((0, "101 ns, 19.8 % of it communication; not"), (15, "101 ns; not")):
        assert said in apart_text(summary["iterations"], usual_ns)


def test_micro_batches_that_vary_are_told_as_a_range(tmp_path: Path) -> None:
    """One, two, four and eight in turn."""
    marks: list[Marker] = []
    work: list[Span] = []
    now_ns = 0
    for number in range(12):
        for _ in range(1 << number % 4):
            work += [(KERNEL, now_ns + 1, now_ns + 1, now_ns + 10)] * 9
            now_ns += 10
            marks.append((0, now_ns, MarkerKind.BACKWARD, "train.py:9 main"))
        marks += steps(0, now_ns)
    iterations = summarise(make_run(tmp_path / "a.phr", [work], marks))["iterations"]
    assert iterations["holds"] == "1 optimizer step, 1 to 8 micro-batches"
    assert list(iterations["micro_batches_range"]) == [1, 8]


@pytest.mark.parametrize("last", ["9", "13"])
def test_the_last_micro_batch_may_have_a_line_of_its_own(tmp_path: Path, last: str) -> None:
    """As where the others are under DDP's `no_sync`."""
    marks: list[Marker] = []
    work: list[Span] = []
    now_ns = 0
    for _ in range(12):
        for line in ("9", "9", "9", last):
            work += [(KERNEL, now_ns + 1, now_ns + 1, now_ns + 10)] * 9
            now_ns += 10
            marks.append((0, now_ns, MarkerKind.BACKWARD, f"train.py:{line} main"))
        marks += steps(0, now_ns)
    iterations = summarise(make_run(tmp_path / "a.phr", [work], marks))["iterations"]
    assert iterations["holds"] == "1 optimizer step, 4 micro-batches"


def test_one_step_is_warm_up_alone(tmp_path: Path) -> None:
    """Nothing is left to report as an iteration."""
    found = find(tmp_path, steps(0, 100))
    assert (found.detected_by, found.count, found.warmup_ns) == ("optimizer", 0, 100)


def test_an_iteration_ends_when_the_device_has_done_its_work(tmp_path: Path) -> None:
    """The host runs ahead: what it had issued before the boundary belongs to the iteration."""
    spans = [(KERNEL, 10, 10, 900), (KERNEL, 90, 900, 1000), (KERNEL, 110, 1000, 1500)]
    found = find(tmp_path, steps(0, 100, 200), [spans])
    assert found.boundaries_ns.tolist() == [1000, 1500]


def test_what_another_stream_still_does_counts(tmp_path: Path) -> None:
    """The work that ends last need not be the work that was issued last."""
    spans = [(KERNEL, 10, 10, 900), (KERNEL, 90, 90, 95), (HOST_WAIT, 96, 96, 97)]
    assert find(tmp_path, steps(0, 100), [spans]).boundaries_ns.tolist() == [900]


def test_a_device_ahead_of_its_host_does_not_shorten_iterations(tmp_path: Path) -> None:
    """The boundary is then the host's."""
    spans = [(KERNEL, 10, 10, 20), (KERNEL, 110, 110, 130)]
    assert find(tmp_path, steps(0, 100, 200), [spans]).boundaries_ns.tolist() == [100, 200]


def test_the_slowest_rank_ends_an_iteration(tmp_path: Path) -> None:
    """It need not be the same one each time."""
    found = find(tmp_path, steps(0, 100, 230) + steps(1, 120, 210), ((), ()))
    assert found.boundaries_ns.tolist() == [120, 230]


def test_ranks_with_fewer_steps_limit_what_is_reported(tmp_path: Path) -> None:
    """An iteration has ended only when every rank has ended it."""
    found = find(tmp_path, steps(0, 100, 200, 300) + steps(1, 100, 210), ((), ()))
    assert found.boundaries_ns.tolist() == [100, 210]


def test_ranks_without_an_optimizer_do_not_matter(tmp_path: Path) -> None:
    """A rank may do nothing but serve data."""
    found = find(tmp_path, steps(1, 100, 200), ((), (), ()))
    assert found.boundaries_ns.tolist() == [100, 200]


def loop(directory: Path, lasted_ns: Sequence[int], reads: int = 0) -> RunData:
    """A kernel and a step of an optimizer each, and so many readings of a clock by one line."""
    spans: list[Span] = []
    markers: list[Marker] = []
    time_ns = 0
    for one_ns in lasted_ns:
        spans.append((KERNEL, time_ns, time_ns, time_ns + one_ns))
        for read in range(1, reads + 1):
            read_ns = time_ns + one_ns * read // (reads + 1)
            markers.append((0, read_ns, MarkerKind.CLOCK_READ, "train.py:7 main"))
        time_ns += one_ns
        markers += steps(0, time_ns - 1)
    return make_run(directory / "a.phr", [spans], markers)


def test_a_clock_that_is_read_several_times_in_each(tmp_path: Path) -> None:
    """As for micro-batches: few iterations do as well, and the report says how often."""
    summary = summarise(loop(tmp_path, [8000] * 4, reads=8))
    clock = summary["iterations"]["script_clock"]
    assert clock is not None
    assert (clock["reads_per_iteration"], clock["iteration_ns"]) == (8, 8000)


def test_a_clock_of_a_host_that_runs_ahead(tmp_path: Path) -> None:
    """It issues four iterations at once and waits for the last: most reads are too close, and
    their mean is an iteration.
    """
    spans: list[Span] = []
    markers: list[Marker] = []
    for number in range(17):
        issued_ns = number // 4 * 32000 + number % 4 * 2000
        spans.append((KERNEL, issued_ns, number * 8000, number * 8000 + 8000))
        markers.append((0, issued_ns + 1, MarkerKind.CLOCK_READ, "train.py:7 main"))
        markers += steps(0, issued_ns + 2)
    summary = summarise(make_run(tmp_path / "a.phr", [spans], markers))
    clock = summary["iterations"]["script_clock"]
    assert clock is not None
    assert clock["iteration_ns"] == pytest.approx(8000, rel=0.1)


def test_a_clock_and_one_slow_iteration(tmp_path: Path) -> None:
    """The clock's mean is compared with that of the same iterations, not with their median."""
    spans: list[Span] = []
    markers: list[Marker] = []
    begin_ns = 0
    for lasts_ns in [1000, 3000, *[1000] * 6]:
        spans.append((KERNEL, begin_ns, begin_ns, begin_ns + lasts_ns))
        markers += steps(0, begin_ns + lasts_ns - 2)
        begin_ns += lasts_ns
        markers.append((0, begin_ns - 1, MarkerKind.CLOCK_READ, "train.py:7 main"))
    iterations = summarise(make_run(tmp_path / "a.phr", [spans], markers))["iterations"]
    assert iterations["median_ns"] == 1000
    clock = iterations["script_clock"]
    assert clock is not None
    assert clock["iteration_ns"] > 1200
    assert abs(clock["difference"]) < 0.05


def test_a_clock_that_is_read_while_the_first_iteration_has_much_to_do(tmp_path: Path) -> None:
    """The host issues what compiles for long, reads the clock and waits: the next read is late."""
    spans: list[Span] = [(KERNEL, 10, 10, 20_000)]
    markers: list[Marker] = [*steps(0, 90), (0, 95, MarkerKind.CLOCK_READ, "train.py:7 main")]
    for end_ns in range(21_000, 28_000, 1000):
        spans.append((KERNEL, end_ns - 1000, end_ns - 1000, end_ns))
        read = (0, end_ns - 900, MarkerKind.CLOCK_READ, "train.py:7 main")
        markers += [*steps(0, end_ns - 910), read]
    clock = summarise(make_run(tmp_path / "a.phr", [spans], markers))["iterations"]["script_clock"]
    assert clock is not None
    assert clock["iteration_ns"] == 1000
    assert clock["difference"] == 0


def test_a_clock_that_is_read_first_late_in_a_long_iteration(tmp_path: Path) -> None:
    """As where a CUDA graph is captured before the loop: what is before the first read is not the
    clock's.
    """
    spans: list[Span] = []
    markers: list[Marker] = []
    begin_ns = 0
    for number, lasts_ns in enumerate([1000, 1000, 5000, *[1000] * 7]):
        end_ns = begin_ns + lasts_ns
        spans.append((KERNEL, begin_ns, begin_ns, end_ns))
        if number > 1:
            markers.append((0, end_ns - 990, MarkerKind.CLOCK_READ, "train.py:7 main"))
        markers += steps(0, end_ns - 2)
        begin_ns = end_ns
    iterations = summarise(make_run(tmp_path / "a.phr", [spans], markers))["iterations"]
    clock = iterations["script_clock"]
    assert clock is not None
    assert (iterations["median_ns"], clock["iteration_ns"]) == (1000, 1000)
    assert clock["difference"] == 0


def test_a_clock_around_sequences_of_other_lengths(tmp_path: Path) -> None:
    """The program reads it before the last launches of an iteration, or after them: all iterations
    are looked at, as in the report.
    """
    spans: list[Span] = []
    markers: list[Marker] = []
    begin_ns = 0
    for number in range(12):
        lasts_ns = (20_000, 10_000, 60_000, 50_000)[number % 4]
        end_ns = begin_ns + lasts_ns
        markers.append((0, begin_ns, MarkerKind.CLOCK_READ, "train.py:7 main"))
        spans.append((KERNEL, begin_ns + 1, begin_ns + 1, end_ns - 200))
        for issued_ns in range(end_ns - 200, end_ns - 100):
            spans.append((KERNEL, issued_ns, issued_ns, issued_ns + 1))
        read_ns = end_ns - (115, 99)[number % 2]
        markers.append((0, read_ns, MarkerKind.CLOCK_READ, "train.py:9 main"))
        begin_ns = end_ns
        markers += steps(0, begin_ns - 3)
    iterations = summarise(make_run(tmp_path / "a.phr", [spans], markers))["iterations"]
    assert iterations["apart"] == []
    clock = iterations["script_clock"]
    assert clock is not None
    assert abs(clock["difference"]) < 0.05


def test_a_clock_that_an_evaluation_reads_too(tmp_path: Path) -> None:
    """Of more batches than there are training steps: the clock's iteration is that of training."""
    spans: list[Span] = []
    markers: list[Marker] = []
    begin_ns = 0
    for number in range(8):
        evaluated = 20 if number == 3 else 0
        for lasts_ns in [9000, *[1000] * evaluated]:
            markers.append((0, begin_ns, MarkerKind.CLOCK_READ, "train.py:7 batches"))
            launches = 3 if lasts_ns == 9000 else 1
            for at_ns in range(begin_ns + 1, begin_ns + lasts_ns - 10, lasts_ns // launches):
                spans.append((KERNEL, at_ns, at_ns, at_ns + lasts_ns // launches - 10))
            if launches == 3:
                markers += steps(0, begin_ns + lasts_ns - 3)
            begin_ns += lasts_ns
            markers.append((0, begin_ns - 1, MarkerKind.CLOCK_READ, "train.py:9 batches"))
    iterations = summarise(make_run(tmp_path / "a.phr", [spans], markers))["iterations"]
    assert [one["duration_ns"] for one in iterations["apart"]] == [29_000]
    clock = iterations["script_clock"]
    assert clock is not None
    assert clock["iteration_ns"] == pytest.approx(9000, rel=0.01)


def test_iterations_that_last_differently(tmp_path: Path) -> None:
    """A median between two kinds is no iteration of either: the mean and the ends are told."""
    (said,) = warnings(summarise(loop(tmp_path, [1000] * 5 + [9000] * 3))["iterations"])
    assert said == "iterations last 1.00 us to 9.00 us, in the mean 4.43 us"
    assert warnings(summarise(loop(tmp_path, [1000] * 4))["iterations"]) == []


def test_a_run_that_mostly_does_other_things(tmp_path: Path) -> None:
    """What the iterations are of all that the GPUs did is told where it is little."""
    iterations = summarise(loop(tmp_path, [96_000, 1000, 1000, 1000, 1000]))["iterations"]
    (said,) = warnings(iterations)
    assert said.startswith("these iterations are 4.0 % of what the GPUs did in this run")


def test_a_rank_that_waits_for_the_preparations_of_another(tmp_path: Path) -> None:
    """Its GPU stands in a barrier while the other reads data: it does nothing else."""
    spans: list[Span] = [(COMMUNICATION, 0, 0, 96_000)]
    spans += [(KERNEL, at_ns, at_ns, at_ns + 1000) for at_ns in range(96_000, 101_000, 1000)]
    markers = steps(0, *range(96_999, 101_999, 1000))
    data = make_run(tmp_path / "a.phr", [spans], markers, operations=[{"moves_ns": 95_990}])
    iterations = summarise(data)["iterations"]
    assert iterations["held_share"] == pytest.approx(4000 / 5010)
    assert warnings(iterations) == []


def test_steps_of_another_phase_are_told(tmp_path: Path) -> None:
    """What an optimizer did before another one took over is in no figure, and the report says so;
    of optimizers that take turns an iteration has each, the first one too.
    """
    before = steps(0, *range(100, 2100, 100), name="SGD#0")
    turns = steps(0, *range(3000, 6000, 200), name="SGD#0") + steps(0, *range(3150, 6000, 600))
    data = make_run(tmp_path / "a.phr", ((),), sorted(before + turns))
    summary = summarise(data)["iterations"]
    assert summary["optimizer_steps"] == {"SGD#0": 3, "AdamW#0": 1}
    assert summary["steps_outside"] == {"SGD#0": 18}
    said = "optimizer steps outside of these iterations, in no figure: 18 of SGD#0; "
    assert [one for one in warnings(summary) if one.startswith(said)]
    alone = make_run(tmp_path / "b.phr", ((),), sorted(turns))
    assert summarise(alone)["iterations"]["steps_outside"] == {}


def test_another_phase_that_the_program_times_is_told(tmp_path: Path) -> None:
    """Generation after training, say: its lines read a clock around equal work, and the figures
    are of the training. A clock that is read twice times no repetition.
    """
    work: list[Span] = [(KERNEL, at_ns, at_ns, at_ns + 40) for at_ns in range(10, 1500, 50)]
    reads = [(0, at_ns, MarkerKind.CLOCK_READ, "x.py:9") for at_ns in range(600, 1300, 200)]
    for count, told in ((4, {"x.py:9": 200}), (2, {})):
        marks = steps(0, *range(100, 600, 100)) + reads[:count]
        data = make_run(tmp_path / f"{count}.phr", [work], marks)
        summary = summarise(data)["iterations"]
        assert (summary["detected_by"], summary["timed_outside"]) == ("optimizer", told)
        assert ("200 ns at x.py:9" in " ".join(warnings(summary))) == bool(told)


def test_what_repeats_for_longest() -> None:
    """Three measurements that repeat as often: the one that takes most of the time."""
    sequence = np.repeat([1, 2, 3], 20)
    found = find_repetition(sequence, np.repeat([10, 1000, 100], 20))
    assert found is not None
    assert (found.begin, found.length, found.count) == (20, 1, 20)


def test_an_iteration_may_have_each_of_its_launches_several_times() -> None:
    """As evolution strategies do: six tries, then a decay of each of four parameters."""
    tries = [*(1, 1, 1, 1), *(2, 2, 2, 2), *(3, 4, 3), *(5, 5, 5, 5)] * 6
    sequence = np.array([*([7] * 4), *(tries + [6] * 4) * 20])
    found = find_repetition(sequence, np.full(len(sequence), 100))
    assert found is not None
    assert (found.length, found.count) == (len(tries) + 4, 20)


def test_weights_that_are_copied_before_a_loop_are_no_iterations(tmp_path: Path) -> None:
    """They may take longer than all that an inference loop does after them."""
    spans: list[Span] = [(COPY, n * 1000, n * 1000, n * 1000 + 1000) for n in range(40)]
    begin_ns = 40_000
    for number in range(10):
        start_ns = begin_ns + number * 300
        spans += [(KERNEL, start_ns, start_ns, start_ns + 200)]
        spans += [(COPY, start_ns + 200, start_ns + 200, start_ns + 300)]
    iterations = summarise(make_run(tmp_path / "a.phr", [spans]))["iterations"]
    assert (iterations["detected_by"], iterations["median_ns"]) == ("launches", 300)
    assert iterations["count"] in {8, 9}


def test_a_loop_whose_products_grow(tmp_path: Path) -> None:
    """Without a key-value cache each token has products of other sizes, by other names."""
    kernel = {"class": "gemm", "tier": "modelled", "duration_ns": 1}
    names = ["copy", *(f"gemm bf16 {64 + n}x512x512 TN" for n in range(12))]
    begins_ns = [100 * number + after_ns for number in range(12) for after_ns in (0, 40)]
    ends_ns = [*begins_ns[1:], 1200]
    rows = span_rows([[(KERNEL, at, at, end) for at, end in zip(begins_ns, ends_ns, strict=True)]])
    rows["id"] = [name for number in range(12) for name in (0, number + 1)]
    timings = [{"name": name, **kernel} for name in names]
    run = make_run(tmp_path / "a.phr", [[]], spans=rows, timings=timings)
    iterations = summarise(run)["iterations"]
    assert (iterations["detected_by"], iterations["median_ns"]) == ("launches", 100)
    assert iterations["count"] >= 10


def test_batches_of_any_size_are_no_other_work(tmp_path: Path) -> None:
    """Small ones take a few launches less, and are most of what is short."""
    sizes = [9, 4, 2, 7, 1, 8, 3, 6, 9, 2, 5, 7, 1, 4, 8]
    spans: list[Span] = []
    marks, now_ns = [], 0
    for size in sizes:
        launches = 31 if size < 3 else 35
        spans += [(KERNEL, now_ns + 1, now_ns + 1, now_ns + 100 * size)] * launches
        now_ns += 100 * size
        marks.append(now_ns)
    iterations = summarise(make_run(tmp_path / "a.phr", [spans], steps(0, *marks)))["iterations"]
    assert iterations["apart"] == []
    assert iterations["per_iteration_ns"] == [100 * size for size in sizes[1:]]
