"""The runs of a sweep end with it."""

from __future__ import annotations

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
