"""What data loaders take, where the user has said what a batch takes (`--data-time`).

Each worker of a loader loads one batch after the other; it begins one as soon as the program has
taken another, up to as many ahead as the loader asks for. A rank that takes a batch waits until it
is there. docs/host-time.md explains it. The standard library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .caveats import tell_caveat

FILE = "loader-time.json"


@dataclass(frozen=True)
class LoaderTime:
    """`batch_ns`: processor time of a batch. `cores`: processors of a node, None if that is not
    known. `ranks`: of a node.
    """

    batch_ns: int
    cores: int | None
    ranks: int

    def of_worker_ns(self, workers: int) -> int:
        """What a batch takes one of so many workers of a rank: those of all ranks of a node share
        its processors.
        """
        running = workers * self.ranks
        if self.cores is None or running <= self.cores:
            return self.batch_ns
        return self.batch_ns * running // self.cores

    def write(self, run_dir: Path) -> None:
        """For the ranks."""
        (run_dir / FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(run_dir: Path) -> LoaderTime | None:
        """What was written there; None: nothing was."""
        path = run_dir / FILE
        if not path.exists():
            return None
        return LoaderTime(**json.loads(path.read_text(encoding="utf-8")))


class Schedule:
    """When the batches of one pass over a loader are there. Units: ns of virtual time."""

    def __init__(self, begin_ns: int, workers: int, ahead: int, batch_ns: int) -> None:
        """`ahead`: batches that each worker is asked for before the first is taken. Workers begin
        one after the other: together they would bring one batch each at the same time, for ever.
        """
        self._batch_ns = batch_ns
        begins_ns = (begin_ns + batch_ns * worker // workers for worker in range(workers))
        self._free_ns = deque(begins_ns)
        self._asked_ns = deque([begin_ns] * (workers * ahead))

    def take(self, now_ns: int) -> int:
        """When the next batch, asked for now, can be taken. Batches go round the workers."""
        loaded_ns = max(self._asked_ns.popleft(), self._free_ns.popleft()) + self._batch_ns
        taken_ns = max(loaded_ns, now_ns)
        self._free_ns.append(loaded_ns)
        self._asked_ns.append(taken_ns)
        return taken_ns


class LoaderTimes:
    """The hooks of one rank's process."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path) -> None:
        self._shim = shim
        self._time = LoaderTime.read(run_dir)
        self._is_told = False
        self.process = os.getpid()

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """By module, what is to be done once it has been imported."""
        return {} if self._time is None else {"torch.utils.data.dataloader": self._watch}

    def _watch(self, module: ModuleType) -> None:
        told = self._time
        assert told is not None
        iterator = module._BaseDataLoaderIter
        reset, following = iterator._reset, iterator.__next__

        @functools.wraps(reset)
        def begin(iterator_: Any, *arguments: Any, **options: Any) -> None:
            reset(iterator_, *arguments, **options)
            workers = iterator_._num_workers
            if workers:
                batch_ns = told.of_worker_ns(workers)
                ahead = iterator_._prefetch_factor
                iterator_._phantora_schedule = Schedule(_now_ns(), workers, ahead, batch_ns)

        @functools.wraps(following)
        def take(iterator_: Any) -> Any:
            begun_ns = _now_ns()
            batch = following(iterator_)
            if os.getpid() == self.process:
                self._tell()
                schedule = getattr(iterator_, "_phantora_schedule", None)
                if schedule is None:  # the rank loads it itself
                    _wait_until(begun_ns + told.of_worker_ns(1))
                else:
                    _wait_until(schedule.take(_now_ns()))
            return batch

        iterator._reset, iterator.__next__ = begin, take

    def _tell(self) -> None:
        """That the time has been charged; once."""
        if not self._is_told:
            self._is_told = True
            tell_caveat(self._shim, "loaded")


def _now_ns() -> int:
    return time.monotonic_ns()


def _wait_until(at_ns: int) -> None:
    wait_ns = at_ns - _now_ns()
    if wait_ns > 0:
        time.sleep(wait_ns / 1e9)
