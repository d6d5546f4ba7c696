"""What phantora_py/rank tells in JSON; `payloads` has what the shim tells."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from sim_server.records.payloads import STATISTICS_OF_SHIM, Count


class MemoryPeaks(TypedDict):
    """Of PyTorch's allocator."""

    kind: Literal["memory"]
    device: Count
    allocated_peak_bytes: Count
    reserved_peak_bytes: Count


class MemoryKinds(TypedDict):
    """What PyTorch's allocated memory was, with `--memory-kinds`: the fullest look so far."""

    kind: Literal["memory_kinds"]
    device: Count
    when: Annotated[str, "backward (as one begins) or step"]
    sizes_bytes: Annotated[dict[str, Count], "allocated, parameters, gradients, optimizer (states)"]


class HostTensors(TypedDict):
    """Host memory that was not filled (decisions/host-memory.md)."""

    kind: Literal["host_tensors"]
    skipped: Annotated[
        list[tuple[str, Count, Count, Count]],
        "random, copy, zero or load; line; operations; bytes",
    ]
    used: Annotated[list[tuple[Count, Count, Count]], "line, tensors, bytes"]


class Routing(TypedDict):
    """How routers of experts were called."""

    kind: Literal["routing"]
    calls: Annotated[
        list[tuple[Count, Count, bool, Count]],
        "experts, how many a token takes, whether values were known, calls",
    ]


class Batch(TypedDict):
    """A batch that the program works on (decisions/throughput.md)."""

    kind: Literal["batch"]
    source: Annotated[str, "embedding, graph or loader"]
    key: Annotated[str, "which of them"]
    samples: Count
    tokens: Count


class DataParallel(TypedDict):
    """A data-parallel group of this rank."""

    kind: Literal["data_parallel"]
    ranks: list[Count]
    parts: Annotated[Count, "of a sequence that is split over ranks"]


class Recomputation(TypedDict):
    """Activations are computed again."""

    kind: Literal["recomputation"]
    event: Annotated[str, "begin, end or compiled"]


class ModuleMark(TypedDict):
    """From here on work is issued for a module, with `--modules`."""

    kind: Literal["module"]
    phase: Annotated[str, "forward, recomputation, backward, optimizer or other"]
    path: Annotated[str, "of the module, or the optimizer's class; empty: none"]


STATISTICS_OF_PYTHON: Final[tuple[type, ...]] = (
    *(MemoryPeaks, MemoryKinds, HostTensors, Routing, Batch, DataParallel, Recomputation),
    ModuleMark,
)
"""Those that phantora_py/rank writes."""
STATISTICS: Final = STATISTICS_OF_SHIM + STATISTICS_OF_PYTHON
