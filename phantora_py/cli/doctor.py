"""`phantora doctor`: what this machine and this installation can do.

With a command: what of the CUDA calls that its libraries may make we do not model.
"""

import argparse
import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from phantora_py.cli import program_check
from phantora_py.isolation import attempts, backend, probe
from phantora_py.isolation.advice import advise
from phantora_py.isolation.engines import EngineFailed
from phantora_py.launch.interpreter import SUPPORTED_CUDA_MAJORS, check_torch, inspect_interpreter
from phantora_py.launch.libraries import preload_list, shim_directory
from phantora_py.machine import host_memory
from phantora_py.text.consoles import plain_console
from sim_server.errors import PhantoraError, UsageError

# A rank forked from the zygote takes some 100 MiB after its first steps (docs/benchmarks.md).
_RANK_BYTES = 100 << 20
# What unpacks CUDA's code objects (csrc/shim/core/fat_binary.cc), and the builds that need it.
_UNPACKERS = {"libzstd.so.1": "CUDA 13", "liblz4.so.1": "CUDA 12"}


@dataclass(frozen=True)
class Finding:
    """One line of the answer. `good` is None for what is neither good nor bad."""

    subject: str
    good: bool | None
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora doctor`; those of the command follow `--`."""
    parser.usage = "phantora doctor [--python PATH] [--json] [-- COMMAND ...]"
    parser.add_argument("--python", metavar="PATH", help="the Python to check")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the findings; exit code 0 if a run is possible, else 2.

    Raises: UsageError for a command that cannot be run, or together with --python.
    """
    if options.command:
        if options.python is not None:
            raise UsageError("--python is for a look at the machine; a command names its own.")
        return program_check.run(options)
    findings = list(examine(options.python or sys.executable))
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        _print(findings)
    return 2 if any(finding.good is False for finding in findings) else 0


def examine(python: str) -> Iterator[Finding]:
    """Looks at the machine, then at the installation."""
    yield from _machine()
    yield from _isolation()
    yield _found("torch", lambda: _torch(python))
    yield _found("shim", _shim)
    yield _found("engine", _engine)
    yield from _unpackers()
    yield _gpu()


def _machine() -> Iterator[Finding]:
    yield Finding("cores", None, f"{len(os.sched_getaffinity(0))} usable")
    available_bytes = host_memory.available_bytes()
    yield Finding(
        "memory",
        available_bytes >= _RANK_BYTES,
        f"{_gib(available_bytes)} available, enough for about {available_bytes // _RANK_BYTES} "
        "forked ranks",
    )
    try:
        free_bytes = shutil.disk_usage("/dev/shm").free
    except OSError as error:
        yield Finding(
            "/dev/shm", None, f"{error}; the directory for temporary files serves instead"
        )
    else:
        yield Finding("/dev/shm", None, f"{_gib(free_bytes)} free")


def _isolation() -> Iterator[Finding]:
    found = probe.probe()
    yield Finding("isolation", None, f"{found.tier}: {found.reason}")
    for name in ("user", *attempts.PRIMITIVES):
        if name in found.namespaces:
            text = "used"
        else:
            text = found.denied.get(name, "not needed" if name == "user" else "not tried")
        yield Finding(f"  {name} namespace", None, text)
    for text in advise(found):
        yield Finding("  for more", None, text)
    for name in backend.BACKENDS[1:]:
        try:
            text = f"usable: {backend.examine(name, 'own').reason}"
        except EngineFailed as reason:
            text = f"not usable: {reason}"
        yield Finding(f"--backend {name}", None, text)


def _torch(python: str) -> str:
    interpreter = inspect_interpreter(python)
    torch = check_torch(interpreter)
    return f"torch {torch.version} (CUDA {torch.cuda}), Python {interpreter.version}, {python}"


def _shim() -> str:
    sets = [shim_directory(major) for major in SUPPORTED_CUDA_MAJORS]
    return ", ".join(f"{len(preload_list(one))} libraries in {one}" for one in sets)


def _engine() -> str:
    try:
        from phantora_py import _channel  # noqa: PLC0415 - its absence is what this looks for
        from sim_server import _engine as engine  # noqa: PLC0415
    except ImportError as error:
        raise PhantoraError(f"not built: {error}. Install phantora again: pip install .") from error
    return f"{Path(engine.__file__).name}, {Path(_channel.__file__).name}"


def _unpackers() -> Iterator[Finding]:
    for name, builds in _UNPACKERS.items():
        try:
            ctypes.CDLL(name)
        except OSError:
            text = (
                f"missing: with PyTorch for {builds} more values are unknown "
                "(docs/decisions/small-operations.md)"
            )
        else:
            text = f"there, for PyTorch for {builds}"
        yield Finding(name, None, text)


def _gpu() -> Finding:
    devices = sorted(Path("/dev").glob("nvidia[0-9]*"))
    return Finding("GPU", None, f"{len(devices)} here" if devices else "none here; none is needed")


def _found(subject: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, True, look())
    except PhantoraError as error:
        return Finding(subject, False, str(error))


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    words = {True: Text("ok", "green"), False: Text("not ok", "red"), None: Text()}
    for finding in findings:
        table.add_row(finding.subject, words[finding.good], finding.text)
    plain_console().print(table)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g} GiB"
