"""Whether a run may be trusted as far as the user asks: `--min-trust` and `--strict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phantora_py.report.sections import shared_gpus, unsimulated
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
    skipped = summary["trust"]["unsupported"]["skipped"]
    if skipped and (strict or min_trust is not None):
        yield (
            f"{skipped:,} calls that are not modelled did nothing and took no time, which neither "
            "--min-trust nor --strict allows."
        )
    lacking = unsimulated.mark(summary["trust"]["unsimulated"])
    if lacking and (strict or min_trust is not None):
        yield f"{lacking}, which neither --min-trust nor --strict allows."
    shared = shared_gpus.mark(summary["trust"]["shared_gpus"])
    if shared and strict:
        yield f"--strict: {shared}."
    assumed = 1 - trusted_share(summary)
    if min_trust is not None and 1 - assumed < min_trust:
        yield (
            f"The times behind {assumed:.1%} of the GPU time are assumed, more than --min-trust "
            f"{min_trust:.1%} leaves."
        )
    if not strict:
        return
    if assumed > _STRICT_ASSUMED:
        yield f"--strict: the times behind {assumed:.1%} of the GPU time are merely assumed."
    interval, median_ns = summary["trust"]["interval"], summary["iterations"]["median_ns"]
    if median_ns == 0:
        yield "--strict: iterations take no virtual time, so there is nothing to judge."
    elif interval is None or median_ns is None:
        yield "--strict: there is no iteration after the first whose time could be judged."
    else:
        shorter, longer = 1 - interval["low_ns"] / median_ns, interval["high_ns"] / median_ns - 1
        if max(shorter, longer) > _STRICT_REACH:
            yield (
                f"--strict: an iteration may take {shorter:.1%} less or {longer:.1%} more than "
                f"simulated, mostly because of {interval['classes'][0]['class']}."
            )
    yield from doubts_of_reads(summary["trust"]["unknown_reads"], accepted_reads)
    folding = summary["trust"]["folding"]
    if folding is not None and not any(one["steps"] for one in folding["witnesses"]):
        yield "--strict: no witness was compared with the ranks that stand for others."
    variables = summary["trust"]["nccl_not_modelled"]
    if variables:
        yield f"--strict: variables of NCCL are not modelled: {', '.join(variables)}."
