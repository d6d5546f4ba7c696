"""`torch.load` maps a checkpoint's file where it would read all of it into memory.

All ranks then share the file's pages in the kernel's cache, and what is never looked at is never
read. Owns the replacement of `torch.load`; a program that asks for `mmap` gets what it asks for.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .host_tensors import LARGE_BYTES, HostTensors


def map_checkpoints(torch: ModuleType, host_tensors: HostTensors) -> None:
    """Replaces `torch.load`."""
    usual = torch.load

    @functools.wraps(usual)
    def load(f: Any, map_location: Any = None, pickle_module: Any = None, **options: Any) -> Any:
        if not _can_map(torch, f, map_location, options.get("mmap")):
            return usual(f, map_location, pickle_module, **options)
        options["mmap"] = True
        place = _placing(torch, map_location, host_tensors)
        return usual(f, place, pickle_module, **options)

    torch.load = load  # type: ignore[attr-defined]


def _can_map(torch: Any, file: Any, map_location: Any, asked: bool | None) -> bool:
    """Whether nobody has decided yet, and the file is one that `mmap=True` accepts."""
    from torch.utils.serialization import config  # noqa: PLC0415  # not imported by torch itself

    if asked is not None or config.load.mmap:
        return False
    if not isinstance(file, (str, os.PathLike)) or str(map_location) == "meta":
        return False
    if torch._guards.detect_fake_mode(None) is not None or not os.path.isfile(file):
        return False
    serialization = torch.serialization
    with open(file, "rb") as opened:
        if not serialization._is_zipfile(opened):
            return False
    with serialization._open_zipfile_reader(os.fspath(file)) as reader:
        return not serialization._is_torchscript_zip(reader)


def _placing(torch: Any, map_location: Any, host_tensors: HostTensors) -> Callable[..., Any]:
    """The `map_location` that does as the given one. Small storages become memory of their own:

    a program may keep them while it overwrites the file, which would take mapped ones away.
    """
    usual = torch.serialization._get_restore_location(map_location)

    def place(storage: Any, location: str) -> Any:
        if storage.nbytes() < LARGE_BYTES:
            storage = storage.clone()
        placed = usual(storage, location)
        if placed.device.type == "cpu" and placed.nbytes() >= LARGE_BYTES:
            host_tensors.note_mapped(placed)
        return placed

    return place
