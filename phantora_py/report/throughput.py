"""What a run gets through: products of its kernels, samples and tokens of its ranks.

docs/decisions/throughput.md has the rules. Figures are of a mean iteration of those that are
compared. What cannot be told is None.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from phantora_py.data import OF_TRACES, RunData
from phantora_py.data.rows import BATCH_SOURCES, Batch
from phantora_py.report.gpus import run_gpus
from phantora_py.report.iterations import Iterations, find_steps
from phantora_py.report.taken_batches import taken_batches
from phantora_py.report.window import Window
from sim_server.errors import UsageError
from sim_server.log.history import KERNEL_SPAN
from sim_server.records import MarkerKind

_LEAST_WIDTH = 4
"""A table of words is at least a fourth as wide as the widest table (assumed)."""


@dataclass(frozen=True)
class Products:
    """FLOPs of all ranks in an iteration."""

    executed: float
    again: float | None
    """Of `executed`, what checkpoints computed again; None: their kernels cannot be told from
    others."""
    type: str
    """Of the operands of most of them."""
    peak_per_s: float | None
    """Of all GPUs together, for this type; None if a GPU's description does not have it."""
    gpus: int
    """How many these are."""
    hidden_share: float
    """Of the kernels' time, that of products whose sizes are not known."""

    @property
    def model(self) -> float | None:
        """Without what was computed again."""
        return None if self.again is None else self.executed - self.again


@dataclass(frozen=True)
class Taken:
    """Samples or tokens of an iteration."""

    amount: float
    ranks: tuple[int, ...]
    """That take them."""
    is_whole: bool
    """Whether that is all that the run takes; no rank's wrapper says so where it is not."""
    source: str
    """One of BATCH_SOURCES, "convolution" or "told"."""


def products(data: RunData, window: Window, iterations: Iterations) -> Products | None:
    """None without iterations, and where no product is known."""
    flops = np.array([float(one.get("flops") or 0) for one in data.timings])
    if not iterations.count or not flops.any():
        return None
    spans = window.ended_in(data.spans[data.spans["kind"] == KERNEL_SPAN])
    weights = data.told.weights(spans["rank"])
    counts = np.bincount(spans["id"], weights, minlength=len(flops))
    by_type: Counter[str] = Counter()
    for timing, count, each in zip(data.timings, counts, flops, strict=True):
        by_type[timing.get("type", "")] += count * each
    executed = float(counts @ flops)
    if not executed:
        return None
    number = max(sorted(by_type), key=by_type.__getitem__)
    again = _again(data, spans, flops)
    peak_per_s = _peak_per_s(data, number)
    return Products(
        executed=executed / iterations.compared,
        again=None if again is None else again / iterations.compared,
        type=number,
        peak_per_s=peak_per_s,
        gpus=sum(data.told.ranks_of(gpu.rank) for gpu in run_gpus(data)),
        hidden_share=_hidden_share(data, spans),
    )


def _again(
    data: RunData, spans: npt.NDArray[np.void], flops: npt.NDArray[np.float64]
) -> float | None:
    """FLOPs of the kernels that were issued between the marks of checkpoints."""
    if data.run["host_time"] == OF_TRACES:
        return None  # they do not tell
    events = {event for _, _, event in data.recomputations}
    # Without host time a checkpoint begins and ends at once; a compiled one has no known parts.
    if (events and data.run["host_time"] == "off") or "compiled" in events:
        return None
    marks: dict[int, dict[str, list[int]]] = defaultdict(lambda: {"begin": [], "end": []})
    for rank, time_ns, event in data.recomputations:
        marks[rank][event].append(time_ns)
    total = 0.0
    for rank, of_rank in marks.items():
        begins_ns, ends_ns = (np.array(of_rank[name], np.int64) for name in ("begin", "end"))
        begins_ns = begins_ns[: len(ends_ns)]  # the last may have been cut off
        ends_ns = ends_ns[: len(begins_ns)]
        own = spans[spans["rank"] == rank]
        own = own[flops[own["id"]] > 0]
        # As marks of iterations: what is issued at that time was issued before.
        begun = np.searchsorted(begins_ns, own["issue_ns"], side="left")
        ended = np.searchsorted(ends_ns, own["issue_ns"], side="left")
        total += data.told.ranks_of(rank) * float(flops[own["id"][begun > ended]].sum())
    return total


def _peak_per_s(data: RunData, number: str) -> float | None:
    gpus = run_gpus(data)
    if data.settings.get("other_gpus"):
        try:
            profiles = [data.told_settings.gpu_of(gpu.rank) for gpu in gpus]
        except UsageError:
            return None
        peaks = [profile.peak_per_s.get(number) for profile in profiles]
    else:
        peaks = [data.settings["gpu"].get("peak_per_s", {}).get(number)] * len(gpus)
    known = [
        data.told.ranks_of(gpu.rank) * peak for gpu, peak in zip(gpus, peaks, strict=True) if peak
    ]
    return sum(known) if len(known) == len(gpus) else None


def _hidden_share(data: RunData, spans: npt.NDArray[np.void]) -> float:
    hidden = np.array(["flops" in one and one["flops"] is None for one in data.timings], np.bool_)
    lasted_ns = spans["end_ns"] - spans["start_ns"]
    whole_ns = int(lasted_ns.sum())
    return float(lasted_ns[hidden[spans["id"]]].sum() / whole_ns) if whole_ns else 0.0


def samples(data: RunData, window: Window, iterations: Iterations) -> Taken | None:
    """A loader knows best what a sample is; the images of a first layer tell where nothing else
    does.
    """
    order = ("loader", *(source for source in BATCH_SOURCES if source != "loader"))
    found = _taken(data, iterations, order, lambda one: one.samples, once_a_pass=True)
    if found is None:
        images = _convolved(data, window, iterations)
        found = _together(data, images, "convolution") if images else None
    return None if found is None else replace(found, amount=found.amount / _parts(data, found))


def tokens(data: RunData, iterations: Iterations) -> Taken | None:
    """What the model looks up is what it computes with."""
    return _taken(data, iterations, BATCH_SOURCES, lambda one: one.tokens)


_Amount = Callable[[Batch], int]


def _taken(
    data: RunData,
    iterations: Iterations,
    order: Sequence[str],
    amount: _Amount,
    once_a_pass: bool = False,
) -> Taken | None:
    by_rank = _by_rank(data, iterations)
    for source in order:
        found = {
            rank: _most(batches, source, amount, once_a_pass) for rank, batches in by_rank.items()
        }
        found = {rank: count for rank, count in found.items() if count}
        if found:
            return _together(data, found, source)
    return None


@dataclass(frozen=True)
class _OfRank:
    """What a rank took in the iterations that are compared, with the number of each."""

    batches: list[tuple[int, Batch]]
    iterations: int
    is_exact: bool
    """Whether its own host says where they end."""
    passes: int
    """Backward passes; 0: not told."""


def _by_rank(data: RunData, iterations: Iterations) -> dict[int, _OfRank]:
    """Only ranks that took something."""
    if not iterations.count:
        return {}
    host_times = find_steps(data).host_times
    found: dict[int, _OfRank] = {}
    for one in taken_batches(data):
        borders_ns = host_times.get(one.rank, iterations.boundaries_ns)
        # What is taken when the mark is set is of the next iteration: nothing was launched between.
        borders_ns = borders_ns[: iterations.count + 1]
        number = int(np.searchsorted(borders_ns, one.time_ns, side="right")) - 1
        if 0 <= number < iterations.count and iterations.alike[number]:
            if one.rank not in found:
                passes = int(_passes(data, one.rank, borders_ns)[iterations.alike].sum())
                exact = one.rank in host_times
                found[one.rank] = _OfRank([], iterations.compared, exact, passes)
            found[one.rank].batches.append((number, one))
    return found


def _passes(data: RunData, rank: int, borders_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Backward passes of a rank, by iteration."""
    ends_ns = [
        time_ns
        for other, time_ns, kind, _ in data.markers
        if other == rank and kind == MarkerKind.BACKWARD
    ]
    return np.diff(np.searchsorted(ends_ns, borders_ns))


def _most(rank: _OfRank, source: str, amount: _Amount, once_a_pass: bool) -> float:
    """Of the table, graph or loader that takes most: positions are looked up, too. `once_a_pass`:
    what is looked up several times for a backward pass, as encoder and decoder do, counts once.
    """
    totals: dict[str, Counter[int]] = defaultdict(Counter)
    lookups: Counter[str] = Counter()
    for number, one in rank.batches:
        if one.source == source:
            totals[one.key][number] += amount(one)
            lookups[one.key] += 1
    times = dict.fromkeys(totals, 1)
    if source == "embedding":
        totals = _wide(totals)
        if once_a_pass and rank.passes:
            regular = [key for key in totals if lookups[key] % rank.passes == 0]
            times |= {key: lookups[key] // rank.passes for key in regular}
    if rank.is_exact:
        means = {key: sum(one.values()) / rank.iterations for key, one in totals.items()}
    else:  # Where another rank says it, a batch may lie on the other side of a border.
        means = {key: float(np.median([*one.values()])) for key, one in totals.items()}
    return max((mean / times[key] for key, mean in means.items()), default=0.0)


def _wide(tables: dict[str, Counter[int]]) -> dict[str, Counter[int]]:
    """Without narrow tables: those of T5's layers have a number for each head, and are looked up
    by distances between tokens.
    """
    ends = {key: key.rpartition("x")[2] for key in tables}
    widths = {key: int(end) if end.isdecimal() else 0 for key, end in ends.items()}
    most = max(widths.values(), default=0)
    return {key: one for key, one in tables.items() if _LEAST_WIDTH * widths[key] >= most}


def _convolved(data: RunData, window: Window, iterations: Iterations) -> dict[int, float]:
    """Images of an iteration by rank, if a first layer is computed once for each backward pass, and
    one optimizer steps: generators and their judges see images several times.
    """
    images = np.array([one.get("images", 0) for one in data.timings], np.int64)
    if not images.any() or not iterations.count:
        return {}
    spans = window.ended_in(data.spans[data.spans["kind"] == KERNEL_SPAN])
    spans = spans[images[spans["id"]] > 0]
    host_times = find_steps(data).host_times
    found: dict[int, float] = {}
    for rank, borders_ns in host_times.items():
        optimizers = {
            name
            for other, _, kind, name in data.markers
            if other == rank and kind == MarkerKind.OPTIMIZER_STEP
        }
        passes = _passes(data, rank, borders_ns[: iterations.count + 1])
        counts = np.bincount(spans["id"][spans["rank"] == rank], minlength=len(images))
        once = counts == passes[iterations.alike].sum()
        if len(optimizers) < 2 and (taken := int((counts * images)[once].max(initial=0))):
            found[rank] = taken / iterations.compared
    return found


def _parts(data: RunData, taken: Taken) -> int:
    """Among how many ranks each sample is shared out."""
    ranks = set(taken.ranks)
    groups = [one["parts"] for one in data.data_parallel if ranks.issuperset(one["ranks"])]
    return max(groups, default=1) if taken.is_whole else 1


def _has_one_process(data: RunData) -> bool:
    """A program that starts its own ranks may use several GPUs in one, as nn.DataParallel does."""
    if data.run.get("own_ranks"):
        return len(np.unique(data.spans["rank"])) == 1
    return data.ranks == 1


def _together(data: RunData, by_rank: Mapping[int, float], source: str) -> Taken:
    """Ranks of a data-parallel group have different data; another group has the same."""
    groups: list[list[int]] = [
        one["ranks"]
        for one in data.data_parallel
        # Those that share sequences alone do not say who has other ones.
        if one["parts"] < len(one["ranks"]) or len(one["ranks"]) in (1, data.ranks)
    ]
    by_rank = data.told.of_all(by_rank)
    largest: dict[int, list[int]]
    largest = {rank: max((g for g in groups if rank in g), key=len, default=[]) for rank in by_rank}
    if _has_one_process(data):
        largest = {rank: [rank] for rank in by_rank}
    if all(largest.values()):
        distinct = {tuple(ranks): ranks for ranks in largest.values()}.values()
        sums = [(sum(by_rank.get(r, 0.0) for r in ranks), ranks) for ranks in distinct]
        total, ranks = max(sums, key=lambda one: one[0])
        return Taken(total, tuple(ranks), True, source)
    rank = min(by_rank)
    return Taken(by_rank[rank], (rank,), False, source)
