"""The measured systems: which rows of the published nccl-tests are whose, and what models them.

The CSV files have one row per measurement. Columns, by either name:
    system, version | interconnect, nodes, env, nccl_version   tell the systems apart
    op_name | collective    all_reduce, all_gather, reduce_scatter, alltoall
    num_gpus                ranks
    nccl_dtype | dtype
    size_bytes              as nccl-tests prints it
    time_us | time_us_oop   out of place
Rows that repeat a measurement are replaced by their median. Rows of no system here are counted.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from sim_server.records import NcclOpKind
from sim_server.records.operations import DATA_TYPE_BYTES, PER_RANK_KINDS, Operation

CLUSTERS = Path(__file__).parent / "clusters"

SMALLEST_BYTES = 512
LARGEST_BYTES = 4 << 30

_KINDS = {
    "all_reduce": NcclOpKind.ALL_REDUCE,
    "all_gather": NcclOpKind.ALL_GATHER,
    "reduce_scatter": NcclOpKind.REDUCE_SCATTER,
    "alltoall": NcclOpKind.ALL_TO_ALL,
}
_DTYPES = {"int8": 0, "half": 6, "float": 7}

Row = Mapping[str, str]


class Role(str, Enum):
    """What a measurement is for."""

    FITTED = "fitted"
    """The costs are fitted to it."""
    LAYOUT = "other layout"
    """Another number of GPUs or nodes of a system that the costs are fitted to."""
    UNSEEN = "unseen"
    """Nothing of this system is fitted."""


class System(NamedTuple):
    """One measured system."""

    name: str
    cluster: str
    """Built-in cluster, or a file in benchmarks/clusters."""
    has: Callable[[Row], bool]
    """Whether a row is of this system."""
    fitted: tuple[int, ...] = ()
    """Numbers of GPUs that the costs are fitted to; none when the system is unseen."""
    node_gpus: int = 0
    """GPUs of a node; 0 when all are in one."""
    note: str = ""
    """What is wrong with the measurements, where something is."""
    sound: bool = True
    """Whether others may be fitted to it when one is left out: it is not known to be broken."""

    def role(self, gpus: int) -> Role:
        """What its measurements on so many GPUs are for."""
        if gpus in self.fitted:
            return Role.FITTED
        return Role.LAYOUT if self.fitted else Role.UNSEEN


class Case(NamedTuple):
    """What was measured."""

    system: System
    operation: Operation
    size_bytes: int

    @property
    def gpus(self) -> int:
        """How many ranks."""
        return len(self.operation.members)

    @property
    def nodes(self) -> int:
        """How many nodes they are on."""
        return self.gpus // self.system.node_gpus if self.system.node_gpus else 1


def _single(name: str, version: str = "") -> Callable[[Row], bool]:
    def has(row: Row) -> bool:
        return row.get("system") == name and bool(row["version"]) == (version != "unstated")

    return has


def _several(interconnect: str, **columns: str) -> Callable[[Row], bool]:
    def has(row: Row) -> bool:
        return row.get("interconnect", "").startswith(interconnect) and all(
            row[column].startswith(tuple(text.split("|"))) for column, text in columns.items()
        )

    return has


# The settings are numbered as in the README of argonne-lcf/alcf-nccl-tests: (1) none, (2)
# NCCL_CROSS_NIC=1 and NCCL_NET_GDR_LEVEL=PHB, from (3) on with the plugin aws-ofi-nccl, (4) adds
# libfabric's cache of registrations and a long completion queue, (5) matches messages in software.
_SLINGSHOT = "HPE Slingshot-11"
_IN_NODE = (2, 8)

SINGLE_NODE = [
    System("A100", "a100", _single("a100_sxm"), _IN_NODE),
    System("H100", "h100", _single("h100_sxm"), _IN_NODE),
    System("H100, NCCL's version not stated", "h100", _single("h100_sxm", "unstated")),
    System("B300", "b300.toml", _single("b300_sxm"), _IN_NODE),
    System("GB200", "gb200_tray.toml", _single("gb200")),
    System("GB300", "gb200_tray.toml", _single("gb300")),
    System("RTX PRO 6000, PCIe", "rtx_pro_6000.toml", _single("rtx_pro_6000_server"), _IN_NODE),
    System(
        "L40S, PCIe",
        "l40s.toml",
        _single("l40s"),
        note="the rates fall with the number of GPUs as no PCIe tree's do; its costs are of RTX "
        "PRO 6000, but its topology is set by hand to what 2 and 4 GPUs show",
    ),
    System("H100, issue of nccl-tests", "h100", _several("NVLink+NVLS")),
]

SEVERAL_NODES = [
    System("DGX A100, HDR", "a100", _several("ALCF Sophia"), (16,), 8),
    System("HGX H100, NDR", "h100", _several("HGX H100"), (32,), 8),
    System("H100, InfiniBand", "h100", _several("8x IB per node"), (), 8),
    System(
        "H100, NDR, misconfigured",
        "h100",
        _several("Quantum-2 NDR"),
        (),
        8,
        "its owner reports it as three times too slow before a repair",
        sound=False,
    ),
    System(
        "p5 (H100), EFA",
        "p5.toml",
        _several("AWS EFA 3200", nodes="2"),
        (16,),
        8,
    ),
    System("p4de (A100), EFA", "p4de.toml", _several("AWS EFA 400"), (), 8),
    System(
        "Polaris (A100), plugin",
        "polaris.toml",
        _several(_SLINGSHOT, env="(3)"),
        (),
        4,
    ),
    System(
        "Polaris, plugin, tuned",
        "polaris.toml",
        _several(_SLINGSHOT, env="(4)"),
        (32,),
        4,
    ),
    System(
        "Polaris, plugin, software matching",
        "polaris.toml",
        _several(_SLINGSHOT, env="(5)"),
        (),
        4,
    ),
    System(
        "Polaris, TCP, NCCL 2.21",
        "polaris_sockets.toml",
        _several(_SLINGSHOT, env="(1)", nccl_version="2.21"),
        (32,),
        4,
    ),
    System(
        "Polaris, TCP, CROSS_NIC, NCCL 2.21",
        "polaris_sockets.toml",
        _several(_SLINGSHOT, env="(2)", nccl_version="2.21"),
        (),
        4,
    ),
    System(
        "Polaris, TCP, CROSS_NIC, NCCL 2.18",
        "polaris_sockets.toml",
        _several(_SLINGSHOT, env="(2)", nccl_version="2.18"),
        (),
        4,
    ),
    System(
        "Polaris, TCP, NCCL 2.18",
        "polaris_sockets.toml",
        _several(_SLINGSHOT, env="(1)", nccl_version="2.18"),
        (),
        4,
        "its rings and trees are up to three times faster than those of the three other TCP "
        "settings, its all-to-all is not; why is not known",
    ),
    System("GB200 NVL72", "gb200", _several("CoreWeave GB200"), (), 72),
]


def cluster_of(system: System) -> str:
    """What `load_cluster` takes."""
    return str(CLUSTERS / system.cluster) if system.cluster.endswith(".toml") else system.cluster


def read_cases(paths: Iterable[Path], systems: Iterable[System]) -> tuple[dict[Case, float], int]:
    """Median measured time in us of every case, and the number of rows that are of no system."""
    times_us: dict[Case, list[float]] = defaultdict(list)
    left_out = 0
    for path in paths:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                system = next((one for one in systems if one.has(row)), None)
                case = None if system is None else _case(system, row)
                time_us = float(_first(row, "time_us", "time_us_oop") or 0)
                if case is None or time_us == 0:
                    left_out += 1
                elif SMALLEST_BYTES <= case.size_bytes <= LARGEST_BYTES:
                    times_us[case].append(time_us)
    return {case: statistics.median(times) for case, times in times_us.items()}, left_out


def _case(system: System, row: Row) -> Case | None:
    kind = _KINDS.get(_first(row, "op_name", "collective"))
    dtype = _DTYPES.get(_first(row, "nccl_dtype", "dtype"))
    if kind is None or dtype is None or not row["num_gpus"] or not row["size_bytes"]:
        return None
    ranks, size_bytes = int(row["num_gpus"]), int(float(row["size_bytes"]))
    parts = ranks if kind in PER_RANK_KINDS else 1
    count = max(1, size_bytes // DATA_TYPE_BYTES[dtype] // parts)
    return Case(system, Operation(kind, count, dtype, tuple(range(ranks))), size_bytes)


def _first(row: Row, *names: str) -> str:
    return next((row[name] for name in names if row.get(name)), "")
