"""Waits for PyTorch's watchdogs that end before these have looked."""

from __future__ import annotations

import ctypes
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from phantora_py.rank import watchdogs

PR_SET_NAME = 15  # linux/prctl.h


class Wrapper:
    """As much of DDP as is looked at."""

    require_backward_grad_sync = True


def test_a_watchdog_that_does_not_look_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has it, since what DDP's buckets take may differ in another run; a process without
    watchdogs awaits none.
    """
    monkeypatch.setattr(watchdogs, "_LIMIT_S", 0.05)
    told: list[dict[str, Any]] = []
    shim: Any = SimpleNamespace(
        ph_enter=lambda: None,
        ph_leave=lambda: None,
        ph_helpers_ask=lambda: 0,
        ph_statistics=lambda text: told.append(json.loads(text)),
    )
    of_rank, wrapper, ends = watchdogs.Watchdogs(shim), Wrapper(), threading.Event()
    begun = threading.Event()

    def watch() -> None:
        ctypes.CDLL(None).prctl(PR_SET_NAME, watchdogs._NAME.encode())
        begun.set()
        ends.wait()

    of_rank._before_rebuild(wrapper)
    of_rank._before_rebuild(Wrapper())
    thread = threading.Thread(target=watch)
    thread.start()
    begun.wait()
    try:
        of_rank._before_rebuild(wrapper)
    finally:
        ends.set()
        thread.join()
    assert told == [{"kind": "caveat", "what": "watchdog", "count": 1}]
    assert watchdogs.await_watchdogs(shim)


@pytest.mark.parametrize("asks", [0, 1])
def test_a_watchdog_has_looked_when_it_pauses_again(
    monkeypatch: pytest.MonkeyPatch, asks: int
) -> None:
    """Not while it sleeps because it waits for an answer, which it does within a round."""
    monkeypatch.setattr(watchdogs, "_LIMIT_S", 5 if asks == 0 else 0.3)
    shim: Any = SimpleNamespace(ph_helpers_ask=lambda: asks)
    begun, ends = threading.Event(), threading.Event()

    def watch() -> None:
        ctypes.CDLL(None).prctl(PR_SET_NAME, watchdogs._NAME.encode())
        while not ends.wait(0.02):
            begun.set()

    thread = threading.Thread(target=watch)
    thread.start()
    begun.wait()
    try:
        assert watchdogs.await_watchdogs(shim) == (asks == 0)
    finally:
        ends.set()
        thread.join()
