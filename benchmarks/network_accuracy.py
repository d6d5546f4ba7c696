"""Compare the communication model with published results of nccl-tests.

    python benchmarks/network_accuracy.py SINGLE_NODE.csv SEVERAL_NODES.csv [--write] [--rows TEXT]

benchmarks/network_systems.py says how the files look, which systems there are and which part of
them the costs are fitted to (benchmarks/network_fit.py). --write makes docs/accuracy.md of it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from network_comparison import Comparison, compare, figures, percentile
from network_fabrics import fabric_lines, within
from network_left_out import LeftOut, left_out, left_out_lines
from network_ranking import ranking_lines
from network_systems import SEVERAL_NODES, SINGLE_NODE, Role, System, read_cases

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"

_ROLES = {
    Role.FITTED: "yes",
    Role.SIZES: "other sizes",
    Role.LAYOUT: "other GPUs",
    Role.UNSEEN: "no",
}


class Aim(NamedTuple):
    """What the errors should be at most."""

    median: float
    ninetieth: float


AIMS = {"single node": Aim(0.07, 0.20), "several nodes": Aim(0.12, math.inf)}

_INTERVALS = {"single node": "communication", "several nodes": "communication between nodes"}

_HEAD = """# Accuracy

Written by `benchmarks/network_accuracy.py --write`, from published results of nccl-tests that are
not in this repository; which they are says `benchmarks/network_systems.py`. Training steps are not
compared here.

## Communication

The error of a time is virtual over measured time, less one. "Absolute" takes it without its sign,
so that half as long is 50 % and twice as long 100 %; "either way" is the larger of the two times
over the smaller, less one, so that both are 100 %. Sizes of 512 B to 64 GiB, each counted once, by
the median of its repetitions; nothing is left out for being far off. "Fitted": whether the costs
are fitted to these very measurements, to every second size of this system, of which these are the
others (several nodes), to the same system with other numbers of GPUs (of a node 2 and 8 GPUs are
fitted, 4 are not), or to nothing of this
system. A system is a machine in one setting: what other NCCL variables or another NCCL do to it is
not mixed into one median.

Chosen with all measurements in view: the form of the model (steps, filling), which part is fitted,
what counts as one system, and the descriptions of the L40S server and of the B200's processors.
What is held out tests the constants, not these choices. "Each system from the
others", below, does without the second: every system is predicted once by what the others show.
The intervals of communication (docs/kernels.md) are made for what is held out;
less than 85 % in them is *narrow*, more than 95 % *wide*.
"""


def page(
    found: Sequence[Comparison], predicted: Sequence[LeftOut], unknown_rows: int
) -> Iterator[str]:
    """Lines of docs/accuracy.md."""
    yield from _HEAD.splitlines()
    yield ""
    yield (
        "| | fitted | cases | median, absolute | 90th percentile | median, signed | aim "
        "| within the interval |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |"
    for title, systems in (("single node", SINGLE_NODE), ("several nodes", SEVERAL_NODES)):
        for role in Role:
            rows = [one for one in found if one.case.system in systems and one.case.role is role]
            if rows:
                errors = figures([one.error for one in rows])
                yield (
                    f"| {title} | {_ROLES[role]} | {errors} | {_aim(title, rows)} "
                    f"| {within(rows, _INTERVALS[title])} |"
                )
    for title, systems in (("Single node", SINGLE_NODE), ("Several nodes", SEVERAL_NODES)):
        yield from ["", f"### {title}", ""]
        yield (
            "| system | GPUs | operation | fitted | cases | median, absolute | 90th percentile | "
            "median, signed | worst, either way |"
        )
        yield "| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |"
        for system in systems:
            yield from _system_rows(system, [one for one in found if one.case.system == system])
    yield ""
    yield from fabric_lines(found)
    yield ""
    yield from left_out_lines(predicted)
    yield ""
    yield from ranking_lines(found)
    yield from ["", "### Remarks", ""]
    for system in (one for one in SINGLE_NODE + SEVERAL_NODES if one.note):
        yield f"* {system.name}: {system.note}."
    yield (
        f"* {unknown_rows:,} rows of the files are of no system above: nodes, ranks, operation or "
        "time are not stated, or they move nothing."
    )


def _system_rows(system: System, found: Sequence[Comparison]) -> Iterator[str]:
    groups: dict[tuple[int, str], list[Comparison]] = defaultdict(list)
    for one in found:
        groups[one.case.gpus, one.case.operation.kind.name.lower()].append(one)
    for (gpus, kind), rows in sorted(groups.items()):
        worst = max(rows, key=lambda one: one.either_way)
        direction = "fast" if worst.error < 0 else "slow"
        errors = figures([one.error for one in rows])
        yield (
            f"| {system.name} | {gpus} | {kind} | {_ROLES[system.role(gpus)]} | {errors} | "
            f"{worst.either_way:.0%} too {direction} at {_size(worst.case.size_bytes)} |"
        )


def _aim(title: str, rows: Sequence[Comparison]) -> str:
    aim = AIMS[title]
    absolute = [abs(one.error) for one in rows]
    met = statistics.median(absolute) <= aim.median and percentile(absolute, 0.9) <= aim.ninetieth
    ninetieth = "" if math.isinf(aim.ninetieth) else f" and {aim.ninetieth:.0%}"
    return f"{aim.median:.0%}{ninetieth}: {'met' if met else '**missed**'}"


def _size(size_bytes: int) -> str:
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << exponent:
            return f"{size_bytes / (1 << exponent):.3g} {unit}"
    return f"{size_bytes} B"


def rows_of(found: Iterable[Comparison]) -> Iterator[str]:
    """One line for each case."""
    for one in found:
        operation = one.case.operation
        yield (
            f"{one.case.system.name[:28]:28}  {operation.kind.name.lower():14} {one.case.gpus:4} "
            f"dtype {operation.dtype} {one.case.size_bytes:14,} B  "
            f"measured {one.measured_us:10.1f} us  simulated {one.simulated_us:10.1f} us  "
            f"{one.error:+8.1%}"
        )


def main() -> int:
    """Print or write the page; exit code 2 for a wrong command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="CSV files of nccl-tests results")
    parser.add_argument("--write", action="store_true", help="write docs/accuracy.md")
    parser.add_argument("--rows", metavar="TEXT", help="print every case of systems so called")
    arguments = parser.parse_args()
    cases, unknown_rows = read_cases(arguments.results, SINGLE_NODE + SEVERAL_NODES)
    if arguments.rows:
        cases = {one: time for one, time in cases.items() if arguments.rows in one.system.name}
    if not cases:
        print("no row of the files is of a known system and operation", file=sys.stderr)
        return 2
    found = compare(cases)
    if arguments.rows:
        print("\n".join(rows_of(found)))
        return 0
    text = "\n".join(page(found, list(left_out(cases)), unknown_rows)) + "\n"
    if arguments.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
