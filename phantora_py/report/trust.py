"""Whether a run may be trusted as far as the user asks: `--min-trust` and `--strict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phantora_py.report.sections import by_machine, caveats, shared_gpus, unsimulated
from phantora_py.report.sections.unknown_reads import doubts_of_reads
from phantora_py.report.summary import Summary

# What `--strict` lets pass: of the GPU time without a rule or without sizes, and how far the
# interval may reach from the iteration time. Both by judgement.
_STRICT_ASSUMED = 0.01
_STRICT_REACH = 0.25


def trusted_share(summary: Summary) -> float:
    """Share of the GPU time that is not merely assumed: what `--min-trust` is compared with."""
    return 1.0 - float(summary["trust"]["gpu_time_share"]["assumed"])


def doubts_of(
    summary: Summary,
    min_trust: float | None,
    strict: bool,
    accepted_reads: Sequence[str] = (),
) -> Iterator[str]:
    """What falls short of what was asked for, in sentences. `accepted_reads`: FILE:LINE where
    unknown values may be read.
    """
    if not strict and min_trust is None:
        return
    skipped = summary["trust"]["unsupported"]["skipped"]
    if skipped:
        yield (
            f"{skipped:,} calls that are not modelled did nothing and took no time, which neither "
            "--min-trust nor --strict allows."
        )
    lacking = unsimulated.mark(summary["trust"]["unsimulated"])
    if lacking:
        yield f"{lacking}, which neither --min-trust nor --strict allows."
    assumed = 1 - trusted_share(summary)
    if min_trust is not None and 1 - assumed < min_trust:
        yield (
            f"The times behind {assumed:.1%} of the GPU time are assumed, more than --min-trust "
            f"{min_trust:.1%} leaves."
        )
    if strict:
        doubts = [*_doubts_of_times(summary), *_doubts_of_course(summary)]
        yield from (f"--strict: {doubt}" for doubt in doubts)
        yield from doubts_of_reads(summary["trust"]["unknown_reads"], accepted_reads)


def _doubts_of_times(summary: Summary) -> Iterator[str]:
    """Whether work takes as long as simulated."""
    shared = shared_gpus.mark(summary["trust"]["shared_gpus"])
    if shared:
        yield f"{shared}."
    assumed = 1 - trusted_share(summary)
    if assumed > _STRICT_ASSUMED:
        yield f"the times behind {assumed:.1%} of the GPU time are merely assumed."
    interval, median_ns = summary["trust"]["interval"], summary["iterations"]["median_ns"]
    if median_ns == 0:
        yield "iterations take no virtual time, so there is nothing to judge."
    elif interval is None or median_ns is None:
        yield "there is no iteration after the first whose time could be judged."
    else:
        shorter, longer = 1 - interval["low_ns"] / median_ns, interval["high_ns"] / median_ns - 1
        if max(shorter, longer) > _STRICT_REACH:
            yield (
                f"an iteration may take {shorter:.1%} less or {longer:.1%} more than simulated, "
                f"mostly because of {interval['classes'][0]['class']}."
            )
    variables = summary["trust"]["nccl_not_modelled"]
    if variables:
        yield f"variables of NCCL are not modelled: {', '.join(variables)}."


def _doubts_of_course(summary: Summary) -> Iterator[str]:
    """Whether the program would do the same unfolded, or in another run."""
    trust = summary["trust"]
    folding = trust["folding"]
    if folding is not None and not any(one["steps"] for one in folding["witnesses"]):
        yield "no witness was compared with the ranks that stand for others."
    yield from (f"{said}." for said in caveats.doubts(trust["caveats"]))
    yield from (f"{said}." for said in by_machine.marks(trust["by_machine"]))
