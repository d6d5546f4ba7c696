"""How often the model picks the faster of two settings that were measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from network_comparison import Comparison
from network_systems import Role

# Measured times that differ by less than this factor are taken to be the same.
_DIFFERENT = 1.1

_SETTINGS = ("system", "number of GPUs", "data type")

_HEAD = """### Which of two is faster

Pairs of cases of the same operation and size that differ in one thing, and whose measured times
differ by more than 10 %. Equal virtual times are wrong. "System" is also the same machine with
other NCCL variables, and the same GPUs on another network. The files have no pair that differs in
`NCCL_ALGO`, `NCCL_PROTO` or the number of channels alone, so that these are not compared. Costs go
by bytes and not by data type, so that nearly all pairs of data types have equal virtual times.

| what differs | fitted | pairs | right | wrong | |
| --- | --- | ---: | ---: | ---: | ---: |"""


def ranking_lines(found: Sequence[Comparison]) -> Iterator[str]:
    """The section of docs/accuracy.md."""
    yield from _HEAD.splitlines()
    rivals: dict[tuple[object, ...], list[Comparison]] = defaultdict(list)
    for one in found:
        rivals[one.case.operation.kind, one.case.size_bytes].append(one)
    picked: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    for group in rivals.values():
        for one, other in combinations(group, 2):
            setting = _setting(one, other)
            slower_us = max(one.measured_us, other.measured_us)
            if setting and slower_us > _DIFFERENT * min(one.measured_us, other.measured_us):
                roles = {each.case.role for each in (one, other)}
                picked[setting, roles == {Role.FITTED}].append(_is_right(one, other))
    for setting in _SETTINGS:
        for both, which in ((True, "both"), (False, "one or none")):
            if right := picked[setting, both]:
                yield (
                    f"| {setting} | {which} | {len(right):,} | {sum(right):,} | "
                    f"{len(right) - sum(right):,} | {sum(right) / len(right):.1%} |"
                )


def _setting(one: Comparison, other: Comparison) -> str:
    """The one thing in which two cases differ; empty if there are more."""
    differ = (
        one.case.system != other.case.system,
        one.case.gpus != other.case.gpus,
        one.case.operation.dtype != other.case.operation.dtype,
    )
    return _SETTINGS[differ.index(True)] if sum(differ) == 1 else ""


def _is_right(one: Comparison, other: Comparison) -> bool:
    measured = one.measured_us - other.measured_us
    return measured * (one.simulated_us - other.simulated_us) > 0
