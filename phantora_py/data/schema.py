"""What a data file may hold (docs/data-file.md): types, ranges, sizes, references.

Everything that a view reads is checked here, once, when the file is opened, so that views need not
expect anything else. Keys that are not listed are of later versions, or only shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phantora_py.data.rows import BATCH_SOURCES
from phantora_py.data.stacks import check_stacks
from phantora_py.data.told import check_fold
from sim_server.cpu import CALLS, WORKS
from sim_server.files.schema import (
    MOST_BYTES,
    MOST_NS,
    Check,
    Fault,
    anything,
    flag,
    key_of,
    mapping,
    number,
    one_of,
    optional,
    printable,
    record,
    row,
    rows,
    text,
    whole,
    wholes,
)
from sim_server.kernels import Tier
from sim_server.kernels.flops import MOST_FLOPS
from sim_server.log.caveats import CAVEATS
from sim_server.log.host_gaps import SOURCES
from sim_server.log.run_log import ANSWER
from sim_server.log.unsupported import ANSWERS
from sim_server.records import (
    RECORD_TYPE,
    MarkerKind,
    MemoryKind,
    NcclOpKind,
)
from sim_server.settings import check_choice

MOST_RANKS = 1 << 16
"""Assumed: no machine runs more."""
MOST_GPUS = 1 << 20
"""Assumed: likewise of GPUs, with those that are no rank's own."""
MOST_MEMBERS = 1 << 20
"""Of the archive."""

# What is kept in memory of a file may be so many times its own size, and so much beside. Spans
# shrink to a tenth, operations of 64 ranks to a thirtieth; records, which are the most of a file,
# are read a piece at a time and have a limit of their own.
_MOST_JSON = (16, 16 << 20)
_MOST_ARRAYS = (64, 64 << 20)
_MOST_PIECE_BYTES = 16 << 20
_ROW_BYTES = {"records": RECORD_TYPE.itemsize, "answers": ANSWER.size}

_time_ns = whole(0, MOST_NS)
_size_bytes = whole(0, MOST_BYTES)
_count = whole(0, MOST_BYTES)
_signed_bytes = whole(-MOST_BYTES, MOST_BYTES)
_seconds = number(0, 1e12)
_share = number(0, 1)


END_KEYS = (
    "exit_code",
    "failed_rank",
    "message",
    "deadlock",
    "wall",
    "host_memory",
    "hosts",
    "steady",
    "unsimulated",
    "by_machine",
    "restarts",
    "digest",
    "resimulation",
)
"""What only run.json has: start.json is without."""


def _run(ends: bool) -> Check:
    """start.json; with `ends` run.json."""
    start: dict[str, Check] = {
        "schema": whole(),
        "command": rows(text),
        "ranks": whole(1, MOST_RANKS),
        "nodes": whole(1, MOST_RANKS),
        "gpus_per_node": whole(1, MOST_RANKS),
        "cluster": _CLUSTER,
        "cluster_name": text,
        "host_time": text,
        "isolation": record({"tier": text, "reason": text}),
        "notes": rows(text),
        "versions": mapping(text),
        "seed": whole(),
    }
    end: dict[str, Check] = {
        "exit_code": whole(0, 255),
        "failed_rank": optional(whole(0, MOST_RANKS)),
        "message": text,
        "wall": record({"total_s": _seconds, "startup_s": _seconds, "core_seconds": _seconds}),
        "digest": text,
    }
    known: dict[str, Check] = {
        "environment": mapping(text),
        "host_tensors": text,
        "cache": optional(text),
        "expert_load": _EXPERT_LOAD,
        "data_time": optional(_DATA_TIME),
        "unsupported": text,
        "host_gaps": optional(record({"file": text, "sha256": text})),
        "cpu": optional(_CPU),
        "deadlock": rows(_DEADLOCK_TABLE),
        "host_memory": optional(_HOST_MEMORY),
        "hosts": rows(
            record(
                {
                    "host": text,
                    "ranks": text,
                    "core_seconds": _seconds,
                    "total_bytes": _size_bytes,
                }
            )
        ),
        "steady": optional(record({"iterations": _count}, {"median_ns": _time_ns})),
        "unsimulated": rows(_UNSIMULATED),
        "by_machine": _BY_MACHINE,
        "restarts": rows(text),
        "own_ranks": flag,
        "resimulation": _RESIMULATION,
        "fold": record(
            {
                "mesh": rows(row(text, whole(1, MOST_RANKS), flag)),
                "witnesses": wholes(0, MOST_RANKS),
            },
            {"apart": rows(text), "searches": flag},
        ),
    }
    return record(start | end if ends else start, known)


_CHARGED = record({"times": _count, "charged_ns": _time_ns})
_CPU = record(
    {
        **dict.fromkeys(("name", "title", "source"), text),
        "works": record(dict.fromkeys(WORKS, number(0, 1e9))),
        "calls": record(dict.fromkeys(CALLS, number(0, 1e9))),
        "interval": row(number(0, 1), number(1, 1e9)),
    }
)
_CLUSTER = record(
    {},
    {
        "gpu": text,
        "nodes": optional(whole(1)),
        "node_groups": rows(record({"gpu": text, "nodes": whole(1, MOST_RANKS)})),
    },
)
_USES = rows(record({"site": printable, "count": _count}))
_IMAGES = record({"operations": _count, "spread_ns": _time_ns, "spread_share": number(0)})
_EXPERT_LOAD = record(
    {"name": text},
    {"exponent": optional(number(0)), "weights": optional(rows(number(0)))},
)
_DATA_TIME = record(
    {"batch_ns": _time_ns, "cores": optional(whole(1)), "ranks": whole(1, MOST_RANKS)}
)
_DEADLOCK_TABLE = record(
    {
        "title": text,
        "rows": rows(
            record(
                {
                    "ranks": wholes(0, MOST_RANKS),
                    "state": text,
                    "since_ns": optional(_time_ns),
                    "site": text,
                }
            )
        ),
    }
)
_HOST_MEMORY = record(
    {"pss_bytes": mapping(_size_bytes, key_of(0, MOST_RANKS)), "total_bytes": _size_bytes},
    {"limit_bytes": optional(_size_bytes)},
)
_BY_MACHINE = rows(
    record(
        {"rank": whole(0, MOST_RANKS), "guesses": _count, "slept_s": _seconds},
        {"ran_out": _count},
    )
)
_UNSIMULATED = record(
    {"rank": whole(0, MOST_RANKS), "device": whole(0, MOST_RANKS), "processes": _count}
)
_RESIMULATION = optional(
    record(
        {},
        {
            **{"of": text, "same_settings": flag, "same_history": optional(flag)},
            **{"cluster_name": text, "what_if": mapping(anything)},
        },
    )
)
_SETTINGS = record(
    {
        "gpu": record(
            {"properties": record({"totalGlobalMem": whole(1, MOST_BYTES)})},
            {
                "name": text,
                "intervals": mapping(row(number(0, 1), number(1), text)),
                "peak_per_s": mapping(number(1, 1e21)),
            },
        ),
        "nccl_environment": mapping(text),
    },
    {
        "ranks": whole(1, MOST_RANKS),
        "nodes": whole(1, MOST_RANKS),
        "gpus_per_node": whole(1, MOST_RANKS),
        "cluster": mapping(anything),
        "other_gpus": mapping(mapping(anything)),
        "iteration": optional(check_choice),
    },
)
_TIMING = record(
    {
        "name": printable,
        "class": printable,
        "tier": one_of([tier.value for tier in Tier]),
        "duration_ns": _time_ns,
    },
    {
        "interval": row(number(0, 1), number(1)),
        "interval_source": printable,
        "signature": mapping(anything),
        "gpu": printable,
        "flops": optional(whole(0, MOST_FLOPS - 1)),
        "type": printable,
        "images": _count,
    },
    together=("interval", "interval_source"),
)


_kinds = record(
    {
        "when": one_of(("backward", "step")),
        **dict.fromkeys(
            ("allocated_bytes", "parameters_bytes", "gradients_bytes", "optimizer_bytes"),
            _size_bytes,
        ),
    }
)


def _by_rank(ranks: int) -> dict[str, Check]:
    """Members that name ranks. Those that come in pieces are lists."""
    rank = whole(0, ranks - 1)
    site = {"rank": rank, "site": printable}
    peaks = dict.fromkeys(
        (
            *("allocated_peak_bytes", "reserved_peak_bytes", "device_peak_bytes"),
            *("context_bytes", "nccl_bytes"),
        ),
        _size_bytes,
    )
    device = whole(0, MOST_RANKS)
    memory = record(
        {
            **peaks,
            "oom": rows(
                record(
                    {"asked_bytes": _size_bytes, "free_bytes": _size_bytes, "site": printable},
                    {"device": device, "retried": flag},
                )
            ),
        },
        {
            "capacity_bytes": _size_bytes,
            "devices": rows(record({"device": device, **peaks}, {"kinds": _kinds})),
            "kinds": _kinds,
        },
    )
    return {
        "communicators.json": mapping(wholes(0, MOST_GPUS), key_of(0, (1 << 64) - 1)),
        "operations": rows(_operation(ranks)),
        "markers": rows(row(rank, _time_ns, one_of([*map(int, MarkerKind)]), printable)),
        "batches": rows(row(rank, _time_ns, one_of(BATCH_SOURCES), printable, _count, _count)),
        "recomputations": rows(row(rank, _time_ns, one_of(("begin", "end", "compiled")))),
        "modules": rows(row(rank, whole(1, (1 << 29) - 1), printable)),
        "data_parallel.json": rows(
            record({"ranks": wholes(0, ranks - 1, fewest=1), "parts": whole(1, ranks)})
        ),
        "allocations": rows(
            row(
                *(rank, _time_ns, whole(0, MOST_RANKS), one_of([*map(int, MemoryKind)])),
                *(_signed_bytes, _signed_bytes, whole(0, (1 << 64) - 1), printable),
            )
        ),
        "memory.json": record({"capacity_bytes": _size_bytes, "per_rank": rows(memory, ranks)}),
        "calls_of.json": wholes(0, ranks - 1),
        "fold.json": record(
            {"witnesses": rows(_witness(rank)), "images": _IMAGES},
            dict.fromkeys(("gloo", "partial_checkpoints"), _USES),
        ),
        "synthetic.json": rows(record(site | {"bytes": _size_bytes, "count": _count})),
        "host_tensors.json": record(
            {
                "skipped": rows(
                    record(site | {"what": printable, "bytes": _size_bytes, "operations": _count})
                ),
                "used": rows(record(site | {"bytes": _size_bytes, "tensors": _count})),
            }
        ),
        "unsupported.json": rows(
            record(
                site
                | dict.fromkeys(("library", "symbol", "detail"), printable)
                | {"answer": one_of(ANSWERS), "count": _count}
            )
        ),
        "exits.json": mapping(whole(-(1 << 31), 1 << 31), key_of(0, ranks - 1)),
    }


def _witness(rank: Check) -> Check:
    return record(
        {"rank": rank, "representative": rank, "steps": _count, "difference": printable},
        {"host_ns": _time_ns, "representative_host_ns": _time_ns},
    )


def _operation(ranks: int) -> Check:
    kinds = [kind.name.lower() for kind in NcclOpKind]
    fields = record(
        {
            "kind": one_of(kinds),
            "comm": whole(0, (1 << 64) - 1),
            "bytes": _size_bytes,
            "count": _count,
            "dtype": whole(0, 255),
            "members": wholes(0, MOST_GPUS, fewest=1),
            "arrivals_ns": wholes(0, MOST_NS, fewest=1),
            "moves_ns": _time_ns,
            "ends_ns": wholes(0, MOST_NS, fewest=1),
            "site": printable,
        },
        {
            "algorithm": printable,
            "protocol": printable,
            "limited_by": printable,
            "root": whole(0, MOST_GPUS),
            "reduction": whole(0, (1 << 32) - 1),
            "owners": rows(row(whole(0, ranks - 1), whole(0, MOST_RANKS))),
        },
    )

    def check(value: Any) -> None:
        fields(value)
        members = len(value["members"])
        for name in ("arrivals_ns", "ends_ns", "owners"):
            if len(value.get(name, value["members"])) != members:
                raise Fault(f"it has {len(value[name])} entries for {members} members").below(
                    f".{name}"
                )
        if "owners" not in value and max(value["members"]) >= ranks:
            raise Fault(f"member {max(value['members'])} is no rank").below(".members")
        if value["kind"] in ("send", "recv") and members != 2:
            raise Fault(f"a {value['kind']} has 2 members, not {members}")
        if ("algorithm" in value) != ("protocol" in value):
            raise Fault("it has an algorithm or a protocol, and not both")

    return check


_SAMPLE = record(
    {
        **{"rank": whole(0, MOST_RANKS), "spent_ns": _time_ns},
        "works": record(dict.fromkeys(WORKS, _count)),
        "calls": record(dict.fromkeys(CALLS, _count)),
    }
)
_WITHOUT_RANKS: Mapping[str, Check] = {
    "settings.json": _SETTINGS,
    "timings": rows(_TIMING),
    "link_loads": rows(mapping(row(number(0), number(0), printable), printable)),
    "calls.json": mapping(
        record(
            {
                "modelled": mapping(_count),
                "ignored": mapping(_count),
                "passthrough": mapping(_count),
            }
        )
    ),
    "host_gaps.json": record(
        {
            "measured": rows(record({"key": printable, "calls": whole(1), "gap_ns": _time_ns})),
            "replayed": record(
                dict.fromkeys(SOURCES, record({"calls": _count, "charged_ns": _time_ns}))
            ),
        },
        {
            "counted": record(
                {
                    **dict.fromkeys(("works", "calls"), mapping(_CHARGED)),
                    "functions": rows(row(printable, _time_ns)),
                    "elsewhere_ns": _time_ns,
                },
                {"stacks": check_stacks},
            ),
            "samples": rows(_SAMPLE),
        },
    ),
    "routing.json": rows(
        record({"experts": whole(1), "top": _count, "calls": _count, "follows": flag})
    ),
    "caveats.json": rows(
        record({"rank": whole(0, MOST_RANKS), "what": one_of(CAVEATS), "count": _count})
    ),
    "measuring.json": record(
        {
            "environment": mapping(printable),
            **dict.fromkeys(("measured", "known", "restarts"), _count),
            "refused": rows(record({"class": printable, "name": printable, "reason": printable})),
        }
    ),
}


def check_run(value: Any, ends: bool) -> None:
    """start.json, or, with `ends`, run.json. Raises: Fault."""
    _run(ends)(value)
    if value["ranks"] > value["nodes"] * value["gpus_per_node"]:
        raise Fault(
            f"{value['ranks']} ranks do not fit on {value['nodes']} nodes of "
            f"{value['gpus_per_node']} GPUs"
        )
    if "fold" in value:
        check_fold(value["fold"], value["ranks"])


check_host_use = record(
    {
        "host": text,
        "index": whole(0, MOST_RANKS),
        "core_seconds": _seconds,
        "host_memory": _HOST_MEMORY,
        "by_machine": _BY_MACHINE,
    }
)
"""What the agent of another host tells of it (`phantora_py.agent.kept_files`). Raises: Fault."""


def member_checks(ranks: int) -> Mapping[str, Check]:
    """By name of a JSON member, or of the list that comes in pieces of that name."""
    return {**_WITHOUT_RANKS, **_by_rank(ranks)}


def is_kept(name: str) -> bool:
    """Whether a member is read as a whole, and not a piece at a time."""
    return not name.startswith(("records/", "answers/", "logs/"))


def check_sizes(file_bytes: int, sizes: Mapping[str, int]) -> None:
    """`sizes`: of the members, as the archive tells them. Raises: Fault for more than `file_bytes`
    of it can hold.
    """
    if len(sizes) > MOST_MEMBERS:
        raise Fault(f"it has {len(sizes):,} members")
    for suffix, (times, beside_bytes) in ((".json", _MOST_JSON), (".npy", _MOST_ARRAYS)):
        kept = {name: size for name, size in sizes.items() if is_kept(name)}
        whole_bytes = sum(size for name, size in kept.items() if name.endswith(suffix))
        if whole_bytes > times * file_bytes + beside_bytes:
            raise Fault(
                f"its {suffix} members would take {whole_bytes:,} bytes, and the file has "
                f"{file_bytes:,}"
            )
    for name, size in sizes.items():
        if not is_kept(name) and size > _MOST_PIECE_BYTES:
            raise Fault(f"{name} would take {size:,} bytes")
        if size % _ROW_BYTES.get(name.partition("/")[0], 1) != 0:
            raise Fault(f"{name} has {size:,} bytes, which are no whole rows")
