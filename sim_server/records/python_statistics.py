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


class StandIns(TypedDict):
    """A collective of gloo took values of ranks that run for those of others, in a folded run."""

    kind: Literal["stand_ins"]
    site: Annotated[Count, "its line"]


class PartialCheckpoint(TypedDict):
    """A checkpoint of shards was saved in a folded run: it lacks those of absent ranks."""

    kind: Literal["partial_checkpoint"]
    site: Annotated[Count, "its line"]


class Recomputation(TypedDict):
    """Activations are computed again."""

    kind: Literal["recomputation"]
    event: Annotated[str, "begin, end or compiled"]


class ModulePaths(TypedDict):
    """Modules that work is issued for, with `--modules`."""

    kind: Literal["modules"]
    paths: Annotated[
        list[tuple[Count, str]], "its number, and its path, or the name of an optimizer's class"
    ]


class PeakBlocks(TypedDict):
    """What PyTorch's allocator had handed out at its peak, with `--modules`: a part of that."""

    kind: Literal["peak_blocks"]
    device: Count
    begin: Annotated[Count, "how many came before; 0: this peak is higher than those before"]
    blocks: Annotated[
        list[tuple[Count, Count, Count, Count, int, Count, Count]],
        "address, bytes, when it was taken, for what (as records of work say it), in what it was "
        "given back (-1: it was not), 1 parameters, 2 gradients, 3 states of optimizers, 4 buffers "
        "or 0 other, and the number of the module that it belongs to",
    ]


STATISTICS_OF_PYTHON: Final[tuple[type, ...]] = (
    *(MemoryPeaks, MemoryKinds, HostTensors, Routing, Batch, DataParallel, Recomputation),
    *(ModulePaths, PeakBlocks, StandIns, PartialCheckpoint),
)
"""Those that phantora_py/rank writes."""
STATISTICS: Final = STATISTICS_OF_SHIM + STATISTICS_OF_PYTHON
