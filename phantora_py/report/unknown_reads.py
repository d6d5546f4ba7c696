"""Values that no rule produced and that the host read: the program may have decided by them."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.iterations import find_steps
from sim_server.errors import UsageError
from sim_server.log.run_log import UNKNOWN_LINE

_PLACE = re.compile(r".+:[1-9][0-9]*")


def unknown_reads(data: RunData) -> list[dict[str, Any]]:
    """By Python line, most reads first: `site`, `place` (FILE:LINE), `count`, `per_rank` of all
    ranks, and whether the counts differ between ranks, and between the iterations of a rank.
    """
    counts: dict[str, Counter[int]] = {}
    for read in data.synthetic_reads:
        counts.setdefault(read["site"], Counter())[read["rank"]] += read["count"]
    uneven = _uneven_sites(data)
    rows = [
        {
            "site": site,
            "place": place_of(site),
            "count": by_rank.total(),
            "per_rank": [by_rank[rank] for rank in range(data.ranks)],
            "differs_between_ranks": len({by_rank[rank] for rank in range(data.ranks)}) > 1,
            "differs_between_iterations": site in uneven,
        }
        for site, by_rank in counts.items()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["site"]))


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


def doubts_of_reads(rows: Sequence[dict[str, Any]], accepted: Sequence[str]) -> Iterator[str]:
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


def _split(row: dict[str, Any]) -> str:
    told = difference_text(row)
    return f" ({told})" if told else ""


def difference_text(row: dict[str, Any]) -> str:
    """That the count of reads is not the same everywhere; empty if it is."""
    where = [
        what
        for key, what in (
            ("differs_between_iterations", "iterations"),
            ("differs_between_ranks", "ranks"),
        )
        if row[key]
    ]
    if not where:
        return ""
    return f"the count differs between {' and '.join(where)}: control flow may have split"
