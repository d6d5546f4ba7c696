"""The runs of a sweep end with it."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from phantora_py.sweep import task
from phantora_py.sweep.engines.local import LocalEngine
from phantora_py.sweep.plan import Configuration
from phantora_py.sweep.results import Result, Results
from phantora_py.sweep.runner import run_all


def _configuration(name: str) -> Configuration:
    return Configuration(name, ("sh", "-c", f"exit; {name}"), {}, {}, {})


@pytest.mark.timeout(60)
def test_an_interrupt_while_runs_are_being_started_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that has begun does not outlive an interrupt that comes before the last has begun."""
    monkeypatch.setattr(task, "module_command", lambda _module: ["sh", "-c", "exec sleep 300"])
    begun = threading.Event()
    submit = ThreadPoolExecutor.submit

    def tell(number: int, result: Result | None) -> None:
        begun.set()

    def interrupted(pool: ThreadPoolExecutor, *arguments: Any) -> Future[Any]:
        if begun.is_set():
            raise KeyboardInterrupt
        future = submit(pool, *arguments)
        begun.wait()
        return future

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    plan = [_configuration("one"), _configuration("other")]
    results = Results(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_all(plan, results, LocalEngine(results, 2), retry=False, tell=tell)
    assert begun.is_set()


def test_a_result_has_the_processors_time_of_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a process that the run has started and waited for, and from run to run."""
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"
    monkeypatch.setattr(task, "module_command", lambda _module: [sys.executable, "-c", start])
    results = Results(tmp_path)
    plan = [_configuration("one")]
    (result,) = run_all(plan, results, LocalEngine(results, 1), retry=False, tell=lambda *_: None)
    assert result.cpu_s is not None
    assert result.cpu_s > 0.25
    (key,) = [path.stem for path in tmp_path.glob("*.json")]
    assert results.read(key, "one").cpu_s == result.cpu_s
