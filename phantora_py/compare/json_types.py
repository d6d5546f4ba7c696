"""The JSON of comparisons (docs/json.md). Units: as the keys say; times are virtual."""

from __future__ import annotations

from typing import Any, TypedDict

from phantora_py.report.sections.breakdown import BreakdownTimes
from phantora_py.report.sections.unknown_reads import UnknownRead
from phantora_py.report.sections.unsimulated import UnsimulatedProcesses


class ComparedIteration(TypedDict):
    """Iterations after the first."""

    count: int
    median_ns: int
    interval_ns: list[int] | None
    """Where the median of further iterations would lie; null with one iteration."""
    confidence: float | None
    """Of `interval_ns`."""
    per_iteration_ns: list[int]
    model_interval_ns: list[int] | None
    """The interval of the run's own report; null where that has none."""


class SpeedUpJson(TypedDict):
    """How many times as fast as the first run."""

    value: float
    low: float | None
    """Null where a spread is not known; likewise `high` and `distinguishable`."""
    high: float | None
    distinguishable: bool | None
    """1 is not between `low` and `high`."""


class Throughput(TypedDict):
    """As --per-iteration says; else in what the reports of all runs found, tokens or samples."""

    unit: str
    per_iteration: float
    per_s: float


class Cost(TypedDict):
    """With --price, in its currency."""

    per_gpu_hour: float
    per_iteration: float
    per_million: float | None
    """Of what `throughput` counts."""


class PeakShares(TypedDict):
    """Shares of the GPUs' peak, as in the run's own report; null where that has none."""

    mfu: float | None
    hfu: float | None


class ComparedRun(PeakShares):
    """The figures of a run."""

    name: str
    command: list[str]
    ranks: int
    cluster: str
    gpu: str
    gpus: dict[str, int]
    """How many ranks have which."""
    host_time: str
    exit_code: int | None
    """Null if the run broke off."""
    broke_off: bool
    digest: str | None
    iteration: ComparedIteration | None
    """Null without one after the first."""
    speed_up: SpeedUpJson | None
    """Null for the first run, and where it is not known."""
    throughput: Throughput | None
    breakdown_ns: BreakdownTimes
    unknown_reads: list[UnknownRead]
    unsimulated: list[UnsimulatedProcesses]
    exposed_communication_ns: int | None
    waiting_for_ranks_ns: int | None
    peak_memory_bytes: int | None
    """Null if the run broke off; likewise `fits`."""
    capacity_bytes: int
    fits: bool | None
    cost: Cost | None


class ChangedInput(TypedDict):
    """An input that differs. Null: it was not given."""

    group: str
    name: str
    first: str | None
    this: str | None


class KernelFigures(TypedDict):
    """Of one rank in one iteration, on average."""

    count: float
    time_ns: float


class CollectiveFigures(TypedDict):
    """Likewise. Waiting is for the last participant, moving what follows."""

    count: float
    size_bytes: float
    moving_ns: float
    waiting_ns: float


class KernelChange(TypedDict):
    """Of the first run, and of this."""

    first: KernelFigures
    this: KernelFigures


KernelClass = TypedDict("KernelClass", {"class": str})


class ChangedClass(KernelClass, KernelChange):
    """A class of kernels."""


class ChangedKernel(ChangedClass):
    """A kernel."""

    name: str


class ChangedCollective(TypedDict):
    """A kind of collective."""

    kind: str
    participants: int
    first: CollectiveFigures
    this: CollectiveFigures


class ModuleFigures(TypedDict):
    """Of a module in a phase, without modules in it: of a mean GPU and iteration."""

    launches: float
    gpu_ns: float
    exposed_ns: float


class ChangedModule(TypedDict):
    """A module of either run, in a phase."""

    phase: str
    path: str
    first: ModuleFigures
    this: ModuleFigures


class Changes(TypedDict):
    """What differs between a run and the first."""

    name: str
    inputs: list[ChangedInput]
    kernel_classes: list[ChangedClass]
    """The greatest change first; likewise `kernels`."""
    kernels: list[ChangedKernel]
    collectives: list[ChangedCollective]
    """What grew most first."""
    modules: list[ChangedModule]
    """All of them, as phases and modules follow each other; none unless both runs know them."""


class Verdict(TypedDict):
    """A gate and a run."""

    gate: str
    name: str
    metric: str
    limit: float
    ratio: float | None
    """To the first run; null where a figure is not known, or grew from nothing."""
    met: bool


class Compared(TypedDict):
    """What comparisons have in common. The first run is what the others are compared with."""

    schema: int
    """Changes when a key means something else."""
    changes: list[Changes]
    """Of the other runs."""
    notes: list[str]
    """What has to be known of the figures."""


class Comparison(Compared):
    """Without gates, as a sweep begins with."""

    runs: list[ComparedRun]


class JudgedComparison(Comparison):
    """What `phantora compare --json` prints."""

    gates: list[Verdict]


class SweptRun(ComparedRun):
    """The figures of a configuration."""

    pareto: bool
    """No other one is better in time, peak memory and GPUs together."""
    file: str
    """The data file."""
    values: dict[str, Any]
    """Of the placeholders."""


class WithoutData(TypedDict):
    """A configuration that left no data file."""

    name: str
    exit_code: int
    message: str
    out_of_memory: bool
    wall_s: float
    cached: bool
    """Found from an earlier sweep."""


class Fastest(TypedDict):
    """The configuration that takes the least time for a unit of work, or for an iteration."""

    name: str
    next: str | None
    """The second; null if no other one finished."""
    speed_up: SpeedUpJson | None
    """Against the second."""


class SweepComparison(Compared):
    """What `phantora sweep --json` prints."""

    runs: list[SweptRun]
    fastest: Fastest | None
    """Null if none finished."""
    without_data: list[WithoutData]
