"""Launches of ranks, done again on this GPU: the same code, the same arguments.

A rank writes down what it launches (csrc/shim/launch/launch_keeper.h). A kernel of a library is
found as the program finds it, by its host function, whose place in the file does not change; one
that was compiled at run time in its code object, which the rank has kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from phantora_py.profile.calls.common import Call, Refusal
from phantora_py.profile.contents import missing_contents
from phantora_py.profile.driver import Arguments, CallFailed, Driver, Shape, load
from phantora_py.profile.memory import Memory
from sim_server.kernels.work import Launch
from sim_server.records.payloads import Kernel

# What a simulated GPU writes into a tensor map (csrc/shim/cuda/tensor_maps.cc). The hardware's own
# form is not known to a rank.
_TENSOR_MAP_MARK = (0x70616D726F736E65).to_bytes(8, "little")


class Kernels:
    """Kernels by name, and the memory that they work on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._driver = Driver(int(torch.version.cuda.partition(".")[0]))
        self._memory = Memory(torch, self._driver)
        self._functions: dict[tuple[str, str], int] = {}

    def call(self, signature: Mapping[str, Any], kept: str | None) -> Call:
        """The launch of `signature` that a rank has written into the file `kept`, with its memory
        as it should be. Raises: Refusal.
        """
        if kept is None:
            raise Refusal(
                "its arguments are not known: data files have none, and a run with --gpu has those "
                "of kernels whose names tell how many there are"
            )
        try:
            launch = _Kept(Path(kept))
        except OSError as error:
            raise Refusal(f"its launch cannot be read: {error}") from error
        if launch.content["signature"] != signature:
            raise Refusal("another launch was kept in its place")
        if any(_TENSOR_MAP_MARK in one for one in launch.parameters):
            raise Refusal("it takes a tensor map, which a simulated GPU does not make")
        try:
            issue = self._issue(launch, signature)
            self._memory.prepare(launch.regions, _contents(launch, signature))
            issue()
        except CallFailed as failure:
            self._torch.cuda.synchronize()  # fails where the GPU itself does no longer work
            raise Refusal(str(failure)) from failure
        return issue

    def _issue(self, launch: _Kept, signature: Mapping[str, Any]) -> Callable[[], None]:
        content, name = launch.content, signature["name"]
        shape = Shape(
            *(signature["grid"], signature["block"], signature["shared_bytes"]),
            *(content["cluster"], bool(content["cooperative"])),
        )
        arguments = Arguments(launch.parameters, bool(content["packed"]))
        driver = self._driver
        if "image" in content:
            function = self._function(launch, name)
            driver.allow_shared(shape, function=function)
            return lambda: driver.launch_function(function, shape, arguments)
        stub = _base(content["library"]) + content["offset"]
        if driver.name_of(stub) != name:
            raise Refusal(f"{content['library']} has another kernel in its place")
        driver.allow_shared(shape, stub=stub)
        return lambda: driver.launch_stub(stub, shape, arguments)

    def _function(self, launch: _Kept, name: str) -> int:
        key = launch.content["image"], name
        if key not in self._functions:
            self._functions[key] = self._driver.function(launch.image, name)
        return self._functions[key]


class _Kept:
    """A file of a rank."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))

    @cached_property
    def parameters(self) -> list[bytes]:
        return [bytes.fromhex(text) for text in self.content["parameters"]]

    @property
    def regions(self) -> list[tuple[int, int]]:
        return [(address, size_bytes) for address, size_bytes in self.content["regions"]]

    @property
    def contents(self) -> list[tuple[int, bytes]]:
        return [(address, bytes.fromhex(text)) for address, text in self.content["contents"]]

    @property
    def image(self) -> bytes:
        return self._path.with_name(f"{self.content['image']}.image").read_bytes()


def _contents(launch: _Kept, signature: Mapping[str, Any]) -> list[tuple[int, bytes]]:
    """What the rank knows comes last: it is what really was there. Raises: Refusal."""
    if "module" in signature:
        return launch.contents
    kernel = Launch.from_signature(cast(Kernel, signature))
    return missing_contents(kernel, launch.parameters, launch.regions) + launch.contents


def _base(library: str) -> int:
    """Where it is loaded; it may have to be. Raises: Refusal."""
    try:
        return load(library).base or 0
    except OSError as error:
        raise Refusal(str(error)) from error
