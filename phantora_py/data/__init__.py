"""The run's data file (`.phr`): reading it.

A zip archive whose members docs/data-file.md describes. Members are read when they are first asked
for. What grows with the run is in pieces, which are put together here.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.data import array_checks
from phantora_py.data.arrays import read_array
from phantora_py.data.broken_archive import UNREADABLE, BrokenArchive
from phantora_py.data.rows import Allocation, Batch
from phantora_py.data.schema import (
    check_run,
    check_sizes,
    member_checks,
)
from phantora_py.data.told import Told
from sim_server.errors import UsageError
from sim_server.files.schema import Check, Fault, anything, parse
from sim_server.log.history import KERNEL_SPAN, SPAN_TYPE
from sim_server.log.scopes import BLOCK_TYPE, SCOPE_TYPE
from sim_server.network.link_use import USE_TYPE
from sim_server.settings import Settings

SCHEMA = 2
OF_TRACES = "trace"
"""The host time of what was simulated from execution traces, which tell nothing of memory."""


class RunData:
    """One run, as its data file tells it. `broke_off`: phantora was killed; the file reaches as
    far as it had been written.
    """

    def __init__(self, path: Path | str, iteration: str | None = None) -> None:
        """Open `path`. `iteration`: what ends one, as `--iteration` says; None: as the run said.

        Raises: UsageError if it is missing, not a data file, cut short, or of another version.
        """
        self.path = Path(path)
        self._iteration = iteration
        self.broke_off = False
        self._archive = self._open()
        self._names = self._archive.namelist()
        self._checks: Mapping[str, Check] = {}
        self._members: dict[str, Any] = {}
        self._check_sizes()
        self.run = self._read_run()
        self._checks = member_checks(self.ranks)
        self._check()

    def _read_run(self) -> dict[str, Any]:
        name = "start.json" if self.broke_off else "run.json"
        run = self._json(name)
        if not isinstance(run, dict) or not isinstance(run.get("schema"), int):
            raise UsageError(
                f"{self.path} is not a data file of phantora: its run.json is another's"
            )
        if run["schema"] != SCHEMA:
            age = "a later" if run["schema"] > SCHEMA else "an earlier"
            raise UsageError(
                f"{self.path} was written by {age} version of phantora (schema {run['schema']}, "
                f"this one reads {SCHEMA}); install that version to read it"
            )
        with self._damage(name):
            check_run(run, ends=not self.broke_off)
        return run

    def _check_sizes(self) -> None:
        """What the members would take is in proportion to the file."""
        if isinstance(self._archive, BrokenArchive):
            sizes = self._archive.sizes()
        else:
            listed = self._archive.infolist()
            sizes = {one.filename: one.file_size for one in listed}
            if len(sizes) < len(listed):
                raise UsageError(f"{self.path} is damaged: several members have one name")
        with self._damage("it"):
            check_sizes(self.path.stat().st_size, sizes)

    def _check_settings(self, settings: dict[str, Any]) -> None:
        """A file of a run has all that a server is told. Raises: Fault."""
        if "ranks" not in settings:
            return
        told = Settings.from_json(json.dumps(settings))
        for name in ("ranks", "nodes", "gpus_per_node"):
            here, there = getattr(told, name), self.run[name]
            if here != there:
                raise Fault(f"its {name} are {here}, and those of the run {there}")

    def _check(self) -> None:
        """Reads and checks everything that views read as a whole."""
        for name in self._checks:
            if name in self._names:
                self._json(name)
        _ = self.settings, self.spans, self.link_use, self.timings, self.operations
        _ = self.markers, self.allocations, self.link_loads, self.memory
        _ = self.scopes, self.peak_blocks

    @contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except Fault as fault:
            raise UsageError(f"{self.path} is damaged: {name}: {fault}") from fault

    def _open(self) -> zipfile.ZipFile | BrokenArchive:
        if self.path.exists() and not self.path.is_file() and not self.path.is_dir():
            raise UsageError(f"{self.path} is no file: name one that `phantora run -o` wrote")
        try:
            return zipfile.ZipFile(self.path)
        except FileNotFoundError as error:
            raise UsageError(
                f"{self.path}: no such file; `phantora run -o FILE` writes one"
            ) from error
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from error
        except UNREADABLE as error:
            self.broke_off = True
            broken = BrokenArchive(self.path)
            if broken.cut or "run.json" in broken.namelist():
                raise UsageError(
                    f"{self.path} is cut short: {broken.cut or 'its end'} is not whole "
                    f"({self.path.stat().st_size:,} bytes are there); copy it again."
                ) from error
            if not {"start.json", "settings.json"} <= {*broken.namelist()}:
                raise UsageError(
                    f"{self.path} is not a data file of phantora, or is not complete: {error}"
                ) from error
            return broken

    @property
    def is_cut(self) -> bool:
        """The ranks did not come to their ends: phantora was killed, or stopped them."""
        return self.broke_off or self.run.get("steady") is not None

    @property
    def is_cut_short(self) -> bool:
        """The ranks' work may not have been simulated to its end: phantora was killed, or a rank
        failed, which stops the others.
        """
        return self.broke_off or any(self.exits.values())

    @property
    def ranks(self) -> int:
        """Ranks of the run."""
        return int(self.run["ranks"])

    @cached_property
    def told(self) -> Told:
        """The ranks of which views tell."""
        return Told.of(self.run)

    @property
    def folding(self) -> dict[str, Any]:
        """Of a folded run that did not break off: its witnesses, and images of operations."""
        return self._json("fold.json") if "fold.json" in self._names else {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What the server simulated: cluster, GPU profile, NCCL_* variables."""
        return dict(self._json("settings.json"))

    @cached_property
    def told_settings(self) -> Settings:
        """The same, as the server was told them.

        Raises: UsageError if some are missing.
        """
        with self._damage("settings.json"):
            return Settings.from_json(json.dumps(self.settings))

    @property
    def iteration(self) -> str | None:
        """What ends an iteration, as `--iteration` says; None: that is found out."""
        return self._iteration or self.settings.get("iteration")

    @property
    def is_iteration_asked_for(self) -> bool:
        """Whether it has to be there: the run's own choice may name what the run lacks."""
        return self._iteration is not None

    @cached_property
    def spans(self) -> npt.NDArray[np.void]:
        """Finished work and host waits: one structured row each, sorted by rank and issue time."""
        rows = self._arrays("spans", SPAN_TYPE)
        with self._damage("spans"):
            array_checks.check_spans(rows, self.ranks, len(self._timing_rows), self.operations)
        rows = self.told.spans(rows)
        # `take` copies whole rows, an index would go field by field.
        return rows.take(np.lexsort([rows["issue_ns"], rows["rank"]]))

    def spans_of(self, rank: int) -> npt.NDArray[np.void]:
        """The spans of a rank, sorted by issue time."""
        begin, end = self._borders[rank : rank + 2]
        return self.spans[begin:end]

    @cached_property
    def _borders(self) -> npt.NDArray[np.int64]:
        """Where each rank's spans begin, and the last one's end."""
        return np.searchsorted(self.spans["rank"], np.arange(self.ranks + 1))

    @cached_property
    def timings(self) -> list[dict[str, Any]]:
        """Kernels: name, class, tier, duration, count; kernel spans have indexes here as `id`."""
        rows = self._timing_rows
        kernels = self.spans["id"][self.spans["kind"] == KERNEL_SPAN]
        counts = np.bincount(kernels, minlength=len(rows))
        return [row | {"count": int(count)} for row, count in zip(rows, counts, strict=True)]

    @cached_property
    def _timing_rows(self) -> list[dict[str, Any]]:
        return self._rows("timings")

    @cached_property
    def operations(self) -> list[dict[str, Any]]:
        """Communication operations; the `id` of communication spans is an index here."""
        return self._rows("operations")

    @cached_property
    def communicators(self) -> dict[int, list[int]]:
        """By number, the GPUs of each communicator in its order. Empty if the run broke off."""
        members = {} if self.broke_off else self._json("communicators.json")
        return {int(number): list(gpus) for number, gpus in members.items()}

    @cached_property
    def moves_ns(self) -> npt.NDArray[np.int64]:
        """When the last rank had arrived at each operation, and its bytes began to move."""
        return np.array([one["moves_ns"] for one in self.operations], np.int64)

    @cached_property
    def markers(self) -> list[tuple[int, int, int, str]]:
        """Markers of the program: rank, host time in ns, MarkerKind, name; by rank and time."""
        rows = [(rank, time_ns, kind, name) for rank, time_ns, kind, name in self._rows("markers")]
        return sorted(self.told.rows(rows), key=lambda marker: marker[:2])

    @cached_property
    def allocations(self) -> list[Allocation]:
        """Device memory that was taken and given back, by rank and time.

        Empty in files of earlier versions.
        """
        rows = [Allocation(*row) for row in self._rows("allocations")]
        return sorted(self.told.rows(rows), key=lambda row: (row.rank, row.time_ns))

    @cached_property
    def link_use(self) -> npt.NDArray[np.void]:
        """How links were used: rows from, to, and an index of `link_loads`; in no order.

        Empty in files of earlier versions.
        """
        uses = self._arrays("link_use", USE_TYPE)
        with self._damage("link_use"):
            array_checks.check_link_use(uses, len(self.link_loads))
        return uses

    @cached_property
    def link_loads(self) -> list[dict[str, tuple[float, float, str]]]:
        """By class of links the share of all their capacity, that of the most used, and which."""
        return self._rows("link_loads")

    @cached_property
    def memory(self) -> dict[str, Any]:
        """Capacity of a device, and per rank the peaks and what did not fit.

        Nothing per rank if the run broke off, or was simulated from execution traces.
        """
        if self.broke_off or self.run["host_time"] == OF_TRACES:
            gpu = self.settings["gpu"]
            return {"capacity_bytes": gpu["properties"]["totalGlobalMem"], "per_rank": []}
        return self.told.memory(self._json("memory.json"))

    @cached_property
    def calls(self) -> dict[str, dict[str, dict[str, int]]]:
        """Counts of calls: library, support, symbol. Empty if the run broke off."""
        return {} if self.broke_off else dict(self._json("calls.json"))

    @cached_property
    def calls_of(self) -> list[int]:
        """The ranks whose calls these are: one that was stopped has not told of its own."""
        if "calls_of.json" in self._names:
            told = set(self._json("calls_of.json"))
            return [rank for rank in range(self.ranks) if self.told.stand_in(rank) in told]
        return [] if self.broke_off else list(range(self.ranks))  # an earlier version's file

    @cached_property
    def synthetic_reads(self) -> list[dict[str, Any]]:
        """Values that the program read back and no rule had produced, by rank and Python line.

        Empty if the run broke off.
        """
        return [] if self.broke_off else self.told.reads(self._json("synthetic.json"))

    @cached_property
    def unknown_reads(self) -> list[tuple[int, int, str]]:
        """When values were read that no rule had produced: rank, host time in ns, Python line.

        Empty in files of earlier versions.
        """
        return [(rank, time_ns, site) for rank, time_ns, site in self._rows("unknown_reads")]

    @cached_property
    def batches(self) -> list[Batch]:
        """What ranks took of the training data, by rank and time.

        Empty in files of earlier versions.
        """
        rows = self.told.rows(Batch(*row) for row in self._rows("batches"))
        return sorted(rows, key=lambda row: (row.rank, row.time_ns))

    @cached_property
    def recomputations(self) -> list[tuple[int, int, str]]:
        """Where checkpoints "begin", and "end", to compute something again, and where one was
        "compiled": rank, host time in ns, which; those of one rank in order.

        Empty in files of earlier versions.
        """
        rows = [(rank, time_ns, event) for rank, time_ns, event in self._rows("recomputations")]
        return sorted(self.told.rows(rows), key=lambda row: row[:2])

    @cached_property
    def scopes(self) -> npt.NDArray[np.void]:
        """Where ranks began to issue work for another module or in another phase: by rank, those of
        one in their order.

        Empty without `--modules`, and in files of earlier versions.
        """
        rows = self._arrays("scopes", SCOPE_TYPE)
        with self._damage("scopes"):
            array_checks.check_scopes(rows, self.ranks)
        rows = self.told.spans(rows)
        return rows[np.argsort(rows["rank"], kind="stable")]

    @cached_property
    def peak_blocks(self) -> npt.NDArray[np.void]:
        """What PyTorch's allocators had handed out at their peaks, by rank, device and time.

        Empty without `--modules`, if the run broke off, and in files of earlier versions.
        """
        rows = self._arrays("peak_blocks", BLOCK_TYPE)
        with self._damage("peak_blocks"):
            array_checks.check_blocks(rows, self.ranks)
        return self.told.spans(rows)

    @cached_property
    def modules(self) -> dict[tuple[int, int], str]:
        """By rank and number the paths of modules, and the names of optimizers' classes."""
        return {(rank, number): path for rank, number, path in self._rows("modules")}

    @cached_property
    def data_parallel(self) -> list[dict[str, Any]]:
        """Groups of `ranks` that have different data, as their wrappers say: several may hold a
        rank. So many `parts` of a sample are on ranks of their own: the ranks share sequences.

        Empty if the run broke off, and in files of earlier versions.
        """
        if self.broke_off or "data_parallel.json" not in self._names:
            return []
        return self.told.groups(self._json("data_parallel.json"))

    @cached_property
    def host_tensors(self) -> dict[str, list[dict[str, Any]]]:
        """What ranks left of their host tensors: `skipped` operations, and what was `used` of it.

        Nothing if the run broke off.
        """
        return {"skipped": [], "used": []} if self.broke_off else self._json("host_tensors.json")

    @cached_property
    def measuring(self) -> dict[str, Any] | None:
        """What a GPU executor did for the run: its `environment`, how many signatures were
        `measured` and `known`, `restarts`, and what was `refused`. None: there was none.
        """
        if "measuring.json" not in self._names:
            return None
        return dict(self._json("measuring.json"))

    @cached_property
    def routing(self) -> list[dict[str, Any]]:
        """Routings that were made up: `experts`, `top`, `follows` (the distribution), `calls`.

        Empty if the run broke off, or is older than `--expert-load`.
        """
        if self.broke_off or "expert_load" not in self.run:
            return []
        return list(self._json("routing.json"))

    @cached_property
    def caveats(self) -> list[dict[str, Any]]:
        """Why ranks say that the report is to be trusted less: `rank`, `what`, `count`."""
        return list(self._json("caveats.json")) if "caveats.json" in self._names else []

    @cached_property
    def unsupported_calls(self) -> list[dict[str, Any]]:
        """Calls that are not modelled and that ranks went on after, by rank and Python line.

        Empty if the run broke off, or is older than `--unsupported`.
        """
        if self.broke_off or "unsupported" not in self.run:
            return []
        return list(self._json("unsupported.json"))

    @cached_property
    def exits(self) -> dict[int, int]:
        """How the process of each rank ended, as far as the server knew when the run ended."""
        ends = {} if self.broke_off else self._json("exits.json")
        return {int(rank): int(status) for rank, status in ends.items()}

    def log(self, rank: int) -> dict[str, bytes]:
        """What a rank has printed, by stream: `log`, or `stdout` and `stderr`."""
        prefix = f"logs/rank-{rank}."
        names = {name.split("/")[1] for name in self._names if name.startswith(prefix)}
        return {
            name.partition(".")[2]: b"".join(map(self._read, self._pieces(f"logs/{name}")))
            for name in sorted(names)
        }

    def records(self, rank: int) -> Iterator[bytes]:
        """The record stream of a rank, in pieces of whole cells."""
        return map(self._read, self._pieces(f"records/rank-{rank}"))

    def answers(self, rank: int) -> Iterator[bytes]:
        """What a rank that waited was told, in pieces of whole `sim_server.log.run_log.ANSWER`s."""
        return map(self._read, self._pieces(f"answers/rank-{rank}"))

    @cached_property
    def host_gaps(self) -> dict[str, Any]:
        """Host time by key: `measured`, as a run with that model found it; `replayed`, as a run
        with recorded host time charged it, by where the gaps came from.
        """
        return dict(self._json("host_gaps.json"))

    def _pieces(self, name: str) -> list[str]:
        return sorted(one for one in self._names if one.rpartition("/")[0] == name)

    def _arrays(self, name: str, row_type: np.dtype[np.void]) -> npt.NDArray[np.void]:
        pieces = [self._array(piece, row_type) for piece in self._pieces(name)]
        return np.concatenate([np.empty(0, row_type), *pieces])

    def _array(self, name: str, row_type: np.dtype[np.void]) -> npt.NDArray[np.void]:
        content = self._read(name)
        with self._damage(name):
            return read_array(content, row_type)

    def _rows(self, name: str) -> list[Any]:
        return [row for piece in self._pieces(name) for row in self._json(piece, name)]

    def _json(self, name: str, kind: str | None = None) -> Any:
        """A member that fulfils its schema. `kind`: of a piece, that of which it is one."""
        if name in self._members:
            return self._members[name]
        content = self._read(name)
        with self._damage(name):
            value = parse(content)
            self._checks.get(kind or name, anything)(value)
            if name == "settings.json":
                self._check_settings(value)
        if kind is None:
            self._members[name] = value
        return value

    def _read(self, name: str) -> bytes:
        """A member. Raises: UsageError if it is missing or damaged."""
        try:
            if isinstance(self._archive, BrokenArchive):
                return self._archive.read(name)
            return _read_bounded(self._archive, name)
        except KeyError as error:
            raise UsageError(
                f"{self.path} is not a data file of phantora, or of a run that broke off: it has "
                f"no {name}"
            ) from error
        except UNREADABLE as error:
            raise UsageError(f"{self.path} is damaged: {name}: {error}") from error
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from error


def _read_bounded(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, no more than its size says: `ZipFile.read` decompresses first and cuts then."""
    size_bytes = archive.getinfo(name).file_size
    with archive.open(name) as file:
        content = file.read(size_bytes + 1)
    if len(content) != size_bytes:
        raise zipfile.BadZipFile(f"it has {len(content):,} bytes instead of {size_bytes:,}")
    return content
