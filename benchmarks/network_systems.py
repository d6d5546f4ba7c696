"""The measured systems: which rows of the published nccl-tests are whose, and what models them.

The CSV files have one row per measurement. Columns, by either name:
    system, version | interconnect, nodes, env, nccl_version   tell the systems apart
    op_name | collective    all_reduce, all_gather, reduce_scatter, alltoall
    num_gpus                ranks
    nccl_dtype | dtype
    size_bytes | size_bytes_1024    as nccl-tests prints it, or as 64M
    time_us | time_us_oop   out of place
A file may have `name` and `nodes` and `gpus_per_node` in place of system and num_gpus.
Rows that repeat a measurement are replaced by their median. Rows of no system here are counted.
"""

from __future__ import annotations

import csv
import gzip
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from sim_server.collectives.version import NEWEST
from sim_server.records import NcclOpKind
from sim_server.records.operations import DATA_TYPE_BYTES, PER_RANK_KINDS, Operation

CLUSTERS = Path(__file__).parent / "clusters"

SMALLEST_BYTES = 512
LARGEST_BYTES = 64 << 30

_KINDS = {
    "all_reduce": NcclOpKind.ALL_REDUCE,
    "all_gather": NcclOpKind.ALL_GATHER,
    "reduce_scatter": NcclOpKind.REDUCE_SCATTER,
    "alltoall": NcclOpKind.ALL_TO_ALL,
}
_POWERS = {"K": 10, "M": 20, "G": 30}
_DTYPES = {"int8": 0, "half": 6, "float": 7}

Row = Mapping[str, str]


class Role(str, Enum):
    """What a measurement is for."""

    FITTED = "fitted"
    """The costs are fitted to it."""
    SIZES = "other sizes"
    """Every second size of a system on several nodes whose others the costs are fitted to."""
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

    version: int = NEWEST
    """Of NCCL, as ncclGetVersion tells it; where it is not known, one from then on."""
    environment: tuple[tuple[str, str], ...] = ()
    """NCCL's variables."""

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
    is_other_size: bool = False
    """Whether it is one of every second size, on several nodes."""

    @property
    def gpus(self) -> int:
        """How many ranks."""
        return len(self.operation.members)

    @property
    def nodes(self) -> int:
        """How many nodes they are on."""
        return self.gpus // self.system.node_gpus if self.system.node_gpus else 1

    @property
    def role(self) -> Role:
        """What it is for."""
        role = self.system.role(self.gpus)
        return Role.SIZES if role is Role.FITTED and self.is_other_size else role


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


def _named(name: str) -> Callable[[Row], bool]:
    return lambda row: row.get("name") == name


# The settings are numbered as in the README of argonne-lcf/alcf-nccl-tests: (1) none, (2)
# NCCL_CROSS_NIC=1 and NCCL_NET_GDR_LEVEL=PHB, from (3) on with the plugin aws-ofi-nccl, (4) adds
# libfabric's cache of registrations and a long completion queue, (5) matches messages in software.
_SLINGSHOT = "HPE Slingshot-11"


def _polaris(name: str, setting: str, cluster: str, fitted: tuple[str, ...] = ()) -> list[System]:
    """One setting under both versions of NCCL, whose choices differ; `fitted`: versions."""
    return [
        System(
            f"Polaris, {name}, NCCL {version}",
            cluster,
            _several(_SLINGSHOT, env=f"({setting})", nccl_version=version),
            (8, 32) if version in fitted else (),
            4,
            version=code,
        )
        for version, code in (("2.18", 21805), ("2.21", 22105))
    ]


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
    System("DGX A100, HDR", "a100", _several("ALCF Sophia"), (16,), 8, version=21805),
    System("HGX H100, NDR", "h100", _several("HGX H100"), (32,), 8, version=22602),
    System("H100, InfiniBand", "h100", _several("8x IB per node"), (), 8, version=22105),
    System("B200, NDR", "b200_amd.toml", _named("B200 Vultr 16 NDR"), (16,), 8, version=22602),
    System(
        "H100, NDR, misconfigured",
        "h100",
        _several("Quantum-2 NDR"),
        (),
        8,
        "its owner reports it as three times too slow before a repair",
        sound=False,
    ),
    System("H200, Spectrum-X", "h200_spectrum_x.toml", _named("H200 Spectrum-X 16"), (), 8),
    System(
        "p5 (H100), EFA", "p5.toml", _several("AWS EFA 3200", nodes="2"), (16,), 8, version=22105
    ),
    System("p5 (H100), EFA, another", "p5.toml", _named("p5 EFA 16 (zenn)"), (), 8, version=22105),
    System("p4de (A100), EFA", "p4de.toml", _several("AWS EFA 400"), (16,), 8, version=21805),
    System("A4 (B200), gIB", "a4.toml", _named("B200 GCP A4 gIB 16"), (16,), 8),
    *_polaris("plugin", "3", "polaris.toml"),
    *_polaris("plugin, tuned", "4", "polaris.toml", ("2.18", "2.21")),
    *_polaris("plugin, software matching", "5", "polaris.toml"),
    *_polaris("TCP", "1", "polaris_sockets.toml", ("2.21",)),
    *_polaris("TCP, CROSS_NIC", "2", "polaris_sockets.toml"),
    System("GB200 NVL72", "gb200", _several("CoreWeave GB200"), (), 72, version=22602),
]


def cluster_of(system: System) -> str:
    """What `load_cluster` takes."""
    return str(CLUSTERS / system.cluster) if system.cluster.endswith(".toml") else system.cluster


def read_cases(paths: Iterable[Path], systems: Iterable[System]) -> tuple[dict[Case, float], int]:
    """Median measured time in us of every case, and the number of rows that are of no system."""
    times_us: dict[Case, list[float]] = defaultdict(list)
    left_out = 0
    for path in paths:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                system = next((one for one in systems if one.has(row)), None)
                case = None if system is None else _case(system, row)
                time_us = float(_first(row, "time_us", "time_us_oop") or 0)
                if case is None or time_us == 0:
                    left_out += 1
                elif SMALLEST_BYTES <= case.size_bytes <= LARGEST_BYTES:
                    times_us[case].append(time_us)
    return {
        case: statistics.median(times_us[case._replace(is_other_size=False)])
        for case in _with_others(times_us)
    }, left_out


def _with_others(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases, those of every second size marked as such."""
    counts: Counter[tuple[System, NcclOpKind, int, int]] = Counter()
    for case in sorted(cases, key=lambda one: one.size_bytes):
        key = (case.system, case.operation.kind, case.operation.dtype, case.gpus)
        counts[key] += 1
        yield case._replace(is_other_size=case.nodes > 1 and counts[key] % 2 == 0)


def _case(system: System, row: Row) -> Case | None:
    kind = _KINDS.get(_first(row, "op_name", "collective", "op"))
    dtype = _DTYPES.get(_first(row, "nccl_dtype", "dtype"))
    size = _first(row, "size_bytes", "size_bytes_1024")
    if kind is None or dtype is None or not size:
        return None
    if "gpus_per_node" in row and "num_gpus" not in row:
        ranks = int(row["nodes"]) * int(row["gpus_per_node"])
    elif row["num_gpus"]:
        ranks = int(row["num_gpus"])
    else:
        return None
    size_bytes = int(float(size.rstrip("KMG"))) << _POWERS.get(size[-1], 0)
    parts = ranks if kind in PER_RANK_KINDS else 1
    count = max(1, size_bytes // DATA_TYPE_BYTES[dtype] // parts)
    return Case(system, Operation(kind, count, dtype, tuple(range(ranks))), size_bytes)


def _first(row: Row, *names: str) -> str:
    return next((row[name] for name in names if row.get(name)), "")
