"""`torch.load` maps a checkpoint's file where it would read all of it into memory.

All ranks then share the file's pages in the kernel's cache, and what is never looked at is never
read. Owns the replacement of `torch.load`; a program that asks for `mmap` gets what it asks for.
Where storages go is decided behind `map_location`, which stays as it was given: PyTorch looks at it
for subclasses that wrap tensors, and takes no function there.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .host_tensors import LARGE_BYTES, HostTensors


def map_checkpoints(torch: ModuleType, host_tensors: HostTensors) -> None:
    """Replaces `torch.load`, and what it makes of `map_location`."""
    usual, usual_location = torch.load, torch.serialization._get_restore_location
    thread = threading.local()

    def restore_location(map_location: Any) -> Any:
        place = usual_location(map_location)
        if not getattr(thread, "is_mapping", False):
            return place
        thread.is_mapping = False  # Not of a checkpoint that is loaded meanwhile.
        return _placing(place, host_tensors)

    @functools.wraps(usual)
    def load(f: Any, map_location: Any = None, pickle_module: Any = None, **options: Any) -> Any:
        if not _can_map(torch, f, map_location, options.get("mmap")):
            return usual(f, map_location, pickle_module, **options)
        options["mmap"] = thread.is_mapping = True
        try:
            return usual(f, map_location, pickle_module, **options)
        finally:
            thread.is_mapping = False

    torch.load = load  # type: ignore[attr-defined]
    torch.serialization._get_restore_location = restore_location


def _can_map(torch: Any, file: Any, map_location: Any, asked: bool | None) -> bool:
    """Whether nobody has decided yet, and the file is one that `mmap=True` accepts."""
    if asked is not None or not isinstance(file, (str, os.PathLike)):
        return False
    # PyTorch imports this module with its first load or save.
    config = importlib.import_module("torch.utils.serialization").config
    if config.load.mmap or str(map_location) == "meta":
        return False
    if torch._guards.detect_fake_mode(None) is not None or not os.path.isfile(file):
        return False
    serialization = torch.serialization
    with open(file, "rb") as opened:
        if not serialization._is_zipfile(opened):
            return False
    with serialization._open_zipfile_reader(os.fspath(file)) as reader:
        return not serialization._is_torchscript_zip(reader)


def _placing(usual: Callable[..., Any], host_tensors: HostTensors) -> Callable[..., Any]:
    """What places storages as usual. Small ones become memory of their own: a program may keep
    them while it overwrites the file, which would take mapped ones away.
    """

    def place(storage: Any, location: str) -> Any:
        if storage.nbytes() < LARGE_BYTES:
            storage = storage.clone()
        placed = usual(storage, location)
        if placed.device.type == "cpu" and placed.nbytes() >= LARGE_BYTES:
            host_tensors.note_mapped(placed)
        return placed

    return place
