"""The data file as tables of pandas or Arrow (docs/tables.md).

A table is a dictionary of columns here; what repeats, as names do, is kept as codes. Only the
library that was asked for is imported: neither is needed for anything else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.bench.operations import bus_factor
from phantora_py.data import RunData
from phantora_py.report.breakdown import gpu_times
from phantora_py.report.certainty import COPIES_CLASS
from phantora_py.report.gpus import device_of, run_gpus
from phantora_py.report.iterations import find_iterations
from phantora_py.tables.flow_table import FlowRow, flow_rows
from sim_server.errors import UsageError
from sim_server.log.history import (
    COMMUNICATION_SPAN,
    COPY_SPAN,
    FILL_SPAN,
    HOST_WAIT_SPAN,
    KERNEL_SPAN,
)
from sim_server.records import CopyKind, MarkerKind, MemoryKind, NcclOpKind, WaitKind


@dataclass(frozen=True)
class Coded:
    """A column of few different texts. `codes`: indexes of `texts`, which differ."""

    codes: npt.NDArray[np.int64]
    texts: list[str]


Columns = Mapping[str, "npt.NDArray[Any] | Coded | list[Any]"]


def make_table(data: RunData, name: str, library: str) -> Any:
    """A table of a run, as a library has them. Raises: UsageError, also if the library is not
    installed.
    """
    if name not in TABLES:
        raise UsageError(f"There is no table {name!r}; there are {', '.join(TABLES)}.")
    if library not in _LIBRARIES:
        raise UsageError(f"Tables are of {' or '.join(_LIBRARIES)}, not of {library!r}.")
    module, convert = _LIBRARIES[library]
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"Tables of {library} need {module}, which is not installed: pip install "
            "'phantora[tables]'"
        ) from error
    return convert(imported, TABLES[name](data))


def _to_pandas(pandas: Any, columns: Columns) -> Any:
    return pandas.DataFrame(
        {
            name: pandas.Categorical.from_codes(column.codes, column.texts)
            if isinstance(column, Coded)
            else column
            for name, column in columns.items()
        }
    )


def _to_arrow(pyarrow: Any, columns: Columns) -> Any:
    return pyarrow.table(
        {
            name: pyarrow.DictionaryArray.from_arrays(
                pyarrow.array(column.codes.astype(np.int32)),
                pyarrow.array(column.texts, pyarrow.string()),
            )
            if isinstance(column, Coded)
            else pyarrow.array(column)
            for name, column in columns.items()
        }
    )


_LIBRARIES: dict[str, tuple[str, Callable[[Any, Columns], Any]]] = {
    "pandas": ("pandas", _to_pandas),
    "arrow": ("pyarrow", _to_arrow),
}


def _kernels(data: RunData) -> Columns:
    """What devices did besides communication."""
    kinds = (KERNEL_SPAN, COPY_SPAN, FILL_SPAN)
    spans = data.spans[np.isin(data.spans["kind"], kinds)]
    # One number for each kind of work: kernels, then copies, then the fill.
    first_copy, fill = len(data.timings), len(data.timings) + max(CopyKind) + 1
    numbers = np.select(
        [spans["kind"] == KERNEL_SPAN, spans["kind"] == COPY_SPAN],
        [spans["id"].astype(np.int64), first_copy + spans["id"].astype(np.int64)],
        fill,
    )
    copies = [""] + [f"copy, {_words(CopyKind(number))}" for number in range(1, max(CopyKind) + 1)]
    named = [*data.timings, *({"name": name, "class": COPIES_CLASS} for name in copies)]
    named.append({"name": "fill of device memory", "class": COPIES_CLASS})
    return {
        "rank": spans["rank"],
        "device": spans["device"],
        "stream": spans["stream"],
        "name": _coded(numbers, [one["name"] for one in named]),
        "class": _coded(numbers, [one["class"] for one in named]),
        "tier": _coded(numbers, [one.get("tier", "modelled") for one in named]),
        "issue_ns": spans["issue_ns"],
        "start_ns": spans["start_ns"],
        "end_ns": spans["end_ns"],
        "iteration": _iteration_of(data, spans["end_ns"]),
    }


def _collectives(data: RunData) -> Columns:
    """Operations, each once."""
    rows = data.operations
    moves_ns = np.array([one["moves_ns"] for one in rows], np.int64)
    ends_ns = np.array([max(one["ends_ns"]) for one in rows], np.int64)
    return {
        "operation": np.arange(len(rows)),
        "kind": _texts(one["kind"] for one in rows),
        "communicator": np.array([one["comm"] for one in rows], np.int64),
        "members": [list(one["members"]) for one in rows],
        "size_bytes": np.array([one["bytes"] for one in rows], np.int64),
        "algorithm": _texts(one.get("algorithm", "") for one in rows),
        "protocol": _texts(one.get("protocol", "") for one in rows),
        "limited_by": _texts(one.get("limited_by") or "" for one in rows),
        "arrives_ns": np.array([min(one["arrivals_ns"]) for one in rows], np.int64),
        "moves_ns": moves_ns,
        "end_ns": ends_ns,
        "bus_bytes_per_s": np.array([_bus_bytes_per_s(one) for one in rows], np.float64),
        "site": _texts(one["site"] for one in rows),
        "iteration": _iteration_of(data, ends_ns),
    }


def _bus_bytes_per_s(operation: Mapping[str, Any]) -> float:
    """As nccl-tests computes it; not a number if nothing moved between ranks."""
    lasted_ns = max(operation["ends_ns"]) - operation["moves_ns"]
    members = len(set(operation["members"]))
    if members < 2 or not lasted_ns:
        return float("nan")
    factor = bus_factor(NcclOpKind[operation["kind"].upper()], members)
    return float(factor * operation["bytes"] / lasted_ns * 1e9)


def _parts(data: RunData) -> Columns:
    """What each rank had of each operation."""
    spans = data.spans[data.spans["kind"] == COMMUNICATION_SPAN]
    moves_ns = np.array([one["moves_ns"] for one in data.operations], np.int64)[spans["id"]]
    return {
        "operation": spans["id"].astype(np.int64),
        "rank": spans["rank"],
        "device": spans["device"],
        "stream": spans["stream"],
        "issue_ns": spans["issue_ns"],
        "arrives_ns": spans["start_ns"],
        "moves_ns": moves_ns,
        "end_ns": spans["end_ns"],
        "iteration": _iteration_of(data, spans["end_ns"]),
    }


def _flows(data: RunData) -> Columns:
    """What moved over which links, for each operation."""
    rows = list(flow_rows(data))
    texts = ("source", "target", "links")
    return {
        name: _texts(column) if name in texts else np.array(column)
        for name, column in (
            (name, [getattr(one, name) for one in rows]) for name in FlowRow._fields
        )
    }


def _waits(data: RunData) -> Columns:
    """When hosts waited for their devices."""
    spans = data.spans[data.spans["kind"] == HOST_WAIT_SPAN]
    kinds = [""] + [_words(WaitKind(number)) for number in range(1, max(WaitKind) + 1)]
    return {
        "rank": spans["rank"],
        "kind": _coded(spans["id"].astype(np.int64), kinds),
        "start_ns": spans["start_ns"],
        "end_ns": spans["end_ns"],
    }


def _iterations(data: RunData) -> Columns:
    """Each iteration after the first, on each GPU, and where its time went (docs/json.md)."""
    boundaries_ns = find_iterations(data).boundaries_ns
    count, gpus = max(len(boundaries_ns) - 1, 0), run_gpus(data)
    parts = np.empty((6, 0), np.int64)
    if count:
        parts = np.concatenate([gpu_times(data, gpu, boundaries_ns) for gpu in gpus], axis=1)
    compute, communication, exposed, waiting, host, idle = parts
    return {
        "rank": np.repeat(np.array([gpu.rank for gpu in gpus], np.int64), count),
        "device": np.repeat(np.array([device_of(data, gpu) for gpu in gpus], np.int64), count),
        "iteration": np.tile(np.arange(1, count + 1), len(gpus)),
        "begin_ns": np.tile(boundaries_ns[:-1], len(gpus)),
        "end_ns": np.tile(boundaries_ns[1:], len(gpus)),
        "compute_ns": compute,
        "communication_ns": communication,
        "exposed_communication_ns": exposed,
        "waiting_for_ranks_ns": waiting,
        "host_ns": host,
        "idle_ns": idle,
    }


def _memory(data: RunData) -> Columns:
    """Peaks of each rank; nothing if the run broke off."""
    rows = data.memory["per_rank"]
    names = ("device_peak", "reserved_peak", "allocated_peak", "context", "nccl")
    return {
        "rank": np.arange(len(rows)),
        **{
            f"{name}_bytes": np.array([one[f"{name}_bytes"] for one in rows], np.int64)
            for name in names
        },
        "capacity_bytes": np.array(
            [one.get("capacity_bytes", data.memory["capacity_bytes"]) for one in rows], np.int64
        ),
        "failed_allocations": np.array([len(one["oom"]) for one in rows], np.int64),
    }


def _allocations(data: RunData) -> Columns:
    """Device memory that was taken and given back."""
    rows = data.allocations
    return {
        **{
            name: np.array([getattr(one, name) for one in rows], np.int64)
            for name in ("rank", "time_ns", "device")
        },
        "kind": _texts(_words(MemoryKind(one.kind)) for one in rows),
        "size_bytes": np.array([one.size_bytes for one in rows], np.int64),
        "in_use_bytes": np.array([one.in_use_bytes for one in rows], np.int64),
        "site": _texts(one.site for one in rows),
    }


def _link_use(data: RunData) -> Columns:
    """How links were used: a row for each class of links in each stretch of time."""
    uses, loads = data.link_use, data.link_loads
    of = [(row, kind) for row, load in enumerate(uses["load"].tolist()) for kind in loads[load]]
    rows = uses.take(np.array([row for row, _ in of], np.int64))
    shares = [loads[int(uses["load"][row])][kind] for row, kind in of]
    return {
        "begin_ns": rows["begin_ns"],
        "end_ns": rows["end_ns"],
        "class": _texts(kind for _, kind in of),
        "share": np.array([share for share, _, _ in shares], np.float64),
        "most_share": np.array([most for _, most, _ in shares], np.float64),
        "most_link": _texts(link for _, _, link in shares),
    }


def _markers(data: RunData) -> Columns:
    """What the program said about itself: steps, marks, NVTX ranges."""
    return {
        "rank": np.array([rank for rank, _, _, _ in data.markers], np.int64),
        "time_ns": np.array([time_ns for _, time_ns, _, _ in data.markers], np.int64),
        "kind": _texts(_words(MarkerKind(kind)) for _, _, kind, _ in data.markers),
        "name": _texts(name for _, _, _, name in data.markers),
    }


TABLES: dict[str, Callable[[RunData], Columns]] = {
    "kernels": _kernels,
    "collectives": _collectives,
    "collective_parts": _parts,
    "flows": _flows,
    "host_waits": _waits,
    "iterations": _iterations,
    "memory": _memory,
    "allocations": _allocations,
    "link_use": _link_use,
    "markers": _markers,
}


def _words(kind: CopyKind | MarkerKind | MemoryKind | WaitKind) -> str:
    return kind.name.lower().replace("_", " ")


def _coded(numbers: npt.NDArray[np.int64], texts: list[str]) -> Coded:
    """`texts` by number; several numbers may mean one text."""
    different = list(dict.fromkeys(texts))
    places = {text: place for place, text in enumerate(different)}
    code_of = np.array([places[text] for text in texts], np.int64)
    return Coded(code_of[numbers], different)


def _texts(texts: Iterable[str]) -> Coded:
    rows = list(texts)
    return _coded(np.arange(len(rows)), rows)


def _iteration_of(data: RunData, ends_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """In which iteration work ended: 0 is the first, -1 none."""
    boundaries_ns = find_iterations(data).boundaries_ns
    found = np.searchsorted(boundaries_ns, ends_ns, side="left")
    return np.where(found < len(boundaries_ns), found, -1)
