"""Values that no rule produced and that the host read: the program may have decided by them."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt
from rich.markup import escape

from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.iterations import find_steps
from phantora_py.report.sections.words import counted
from sim_server.errors import UsageError
from sim_server.log.run_log import UNKNOWN_LINE

_MOST_SITES = 5
_PLACE = re.compile(r".+:[1-9][0-9]*")


class ReadSite(TypedDict):
    """Values of one size that a rank read at a Python line and no rule had produced."""

    rank: int
    site: str
    bytes: int
    count: int


class UnknownRead(TypedDict):
    """A Python line at which the host read values that no rule had produced."""

    site: str
    place: str
    """FILE:LINE, as --accept-unknown takes it."""
    count: int
    per_rank: list[int]
    differs_between_ranks: bool
    differs_between_iterations: bool
    """Between whole ones after the first, of each rank's host."""


def make_count(found: Findings) -> int:
    """How many values were read."""
    return sum(read["count"] for read in found.data.synthetic_reads)


def make_sites(found: Findings) -> list[ReadSite]:
    """As they are recorded."""
    return cast("list[ReadSite]", found.data.synthetic_reads)


def make(found: Findings) -> list[UnknownRead]:
    """By Python line, most reads first."""
    data = found.data
    counts: dict[str, Counter[int]] = {}
    for read in data.synthetic_reads:
        counts.setdefault(read["site"], Counter())[read["rank"]] += read["count"]
    uneven = _uneven_sites(data)
    rows: list[UnknownRead] = [
        {
            "site": site,
            "place": place_of(site),
            "count": by_rank.total(),
            "per_rank": [by_rank[rank] for rank in range(data.ranks)],
            "differs_between_ranks": len({by_rank[rank] for rank in found.started}) > 1,
            "differs_between_iterations": site in uneven,
        }
        for site, by_rank in counts.items()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["site"]))


def lines(count: int, rows: Sequence[UnknownRead]) -> list[str]:
    """On a terminal."""
    if not count:
        return []
    said = [f"  values     {count:,} values read back that no rule produced:"]
    for row in rows[:_MOST_SITES]:
        differs = difference_text(row)
        more = f"; [yellow]{differs}[/]" if differs else ""
        said.append(f"    {row['count']:,} at {escape(row['site'])}{more}")
    if rest := rows[_MOST_SITES:]:
        more_count = sum(row["count"] for row in rest)
        said.append(f"    {more_count:,} at {counted(len(rest), 'other line')} (--json has all)")
    return said


def _uneven_sites(data: RunData) -> set[str]:
    """Lines that some rank came to more often in one whole iteration than in another. The host's
    own iterations count: the end of the device's is another rank's business.
    """
    times_ns: dict[tuple[int, str], list[int]] = {}
    for rank, time_ns, site in data.unknown_reads:
        times_ns.setdefault((rank, site), []).append(time_ns)
    steps = find_steps(data).host_times
    return {
        site
        for (rank, site), of_site_ns in times_ns.items()
        if rank in steps and _is_uneven(np.array(of_site_ns, np.int64), steps[rank])
    }


def _is_uneven(times_ns: npt.NDArray[np.int64], ends_ns: npt.NDArray[np.int64]) -> bool:
    # A read follows the mark of the iteration before it, also where no time has passed since.
    iterations = np.searchsorted(ends_ns, times_ns, side="right")
    counts = np.bincount(iterations, minlength=len(ends_ns) + 1)[1 : len(ends_ns)]
    return len(set(counts.tolist())) > 1


def place_of(site: str) -> str:
    """FILE:LINE of a Python line, without its function."""
    return site if site == UNKNOWN_LINE else site.rpartition(" ")[0] or site


def parse_places(texts: Sequence[str]) -> tuple[str, ...]:
    """The values of --accept-unknown. Raises: UsageError."""
    for text in texts:
        if text != UNKNOWN_LINE and not _PLACE.fullmatch(text):
            raise UsageError(
                f"--accept-unknown {text!r} is no Python line; write FILE:LINE as the report shows "
                "it, for example train.py:50."
            )
    return tuple(texts)


def doubts_of_reads(rows: Sequence[UnknownRead], accepted: Sequence[str]) -> Iterator[str]:
    """What --strict says of them: of each line that is not accepted, and of what is accepted
    although nothing unknown was read there.
    """
    for row in rows:
        if not any(_is_at(row["place"], place) for place in accepted):
            yield (
                f"--strict: {row['count']:,} values that no rule produced were read at "
                f"{row['site']}, and the program may have decided by them{_split(row)}; if it does "
                f"not, add --accept-unknown {shlex.quote(row['place'])}."
            )
    for place in accepted:
        if not any(_is_at(row["place"], place) for row in rows):
            yield f"--accept-unknown {place}: no unknown value was read there; leave it out."


def _is_at(place: str, accepted: str) -> bool:
    """The file may be told without its first directories."""
    return place == accepted or place.endswith(f"/{accepted.removeprefix('./')}")


def _split(row: UnknownRead) -> str:
    told = difference_text(row)
    return f" ({told})" if told else ""


def difference_text(row: UnknownRead) -> str:
    """That the count of reads is not the same everywhere; empty if it is."""
    where = ["iterations"] if row["differs_between_iterations"] else []
    where += ["ranks"] if row["differs_between_ranks"] else []
    if not where:
        return ""
    return f"the count differs between {' and '.join(where)}: control flow may have split"
