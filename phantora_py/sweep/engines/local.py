"""Runs on this machine, as many at a time as there is room for."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from phantora_py.sweep.engines.engine import Ended
from phantora_py.sweep.parallel_runs import ParallelRuns
from phantora_py.sweep.results import Results
from phantora_py.sweep.task import Task, carry_out
from sim_server.errors import Interrupted


class LocalEngine:
    """See `ParallelRuns` for how many run at a time."""

    def __init__(self, results: Results, most: int | None) -> None:
        self._results = results
        self._parallel = ParallelRuns(most)
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, tasks: Sequence[Task], begun: Callable[[Task], None]) -> Iterator[Ended]:
        """As `Engine.run`."""
        with ThreadPoolExecutor(self._parallel.most) as pool:
            try:
                futures = [pool.submit(self._run, task, begun) for task in tasks]
                for future in as_completed(futures):
                    yield future.result(), ""
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.stop()
                raise

    def learn(self, ranks: int, size_bytes: int) -> None:
        """As `Engine.learn`."""
        self._parallel.learn(ranks, size_bytes)

    def stop(self) -> None:
        """As `Engine.stop`. They have got an interrupt from the keyboard, too, if there was one; a
        second one does not hurt.
        """
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.terminate()

    def _run(self, task: Task, begun: Callable[[Task], None]) -> Task:
        process: subprocess.Popen[bytes] | None = None

        def started(one: subprocess.Popen[bytes]) -> None:
            nonlocal process
            with self._lock:
                if self._stopped:
                    raise Interrupted("the sweep was stopped.")
                self._processes.add(one)
            process = one

        self._parallel.enter(task.ranks)
        try:
            with self._lock:
                begun(task)
            carry_out(task, self._results, started)
            return task
        finally:
            with self._lock:
                if process is not None:
                    self._processes.discard(process)
            self._parallel.leave(task.ranks)
