"""What all tests share: the marker `torch`, the option --sources."""

from __future__ import annotations

import functools
import os
import signal
import sys
from contextlib import ExitStack

import pytest

from phantora_py.launch import fork_servers
from phantora_py.launch.interpreter import check_torch, inspect_interpreter
from sim_server.errors import UsageError

_shared = ExitStack()
# What packages set when a test imports them; programs would be started with it.
_SET_BY_IMPORTS = ("PYTORCH_NVML_BASED_CUDA_CHECK", "TORCHINDUCTOR_CACHE_DIR")


def pytest_configure() -> None:
    """Signals that a background job of a shell ignores would be ignored by what the tests start,
    and programs without buffers print into each other's lines.
    """
    os.environ.pop("PYTHONUNBUFFERED", None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # Runs of the tests import PyTorch once for many; a test without removes the variable.
    _shared.enter_context(fork_servers.offered())


def pytest_unconfigure() -> None:
    """What runs have shared ends with the tests."""
    _shared.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """For tests/e2e/test_published_programs.py."""
    parser.addoption("--sources", metavar="DIR", help="a folder with checkouts of programs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs come first: of two processes with tests neither is left with a long file."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/e2e/"))


@functools.cache
def _torch_fault() -> str | None:
    """Why the interpreter that runs the tests cannot run those marked `torch`; None if it can."""
    try:
        check_torch(inspect_interpreter(sys.executable))
    except UsageError as error:
        return f"{error} To install it: pip install torch==2.15.*"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test has the environment of the first. Those of PyTorch are skipped without it, and fail
    in continuous integration.
    """
    for name in _SET_BY_IMPORTS:
        os.environ.pop(name, None)
    if item.get_closest_marker("torch") is None or (fault := _torch_fault()) is None:
        return
    if os.environ.get("CI"):
        pytest.fail(fault, pytrace=False)
    pytest.skip(fault)
