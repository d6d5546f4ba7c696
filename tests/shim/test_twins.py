"""Calls that CUDA's runtime and driver API both have are written once.

Each twin is a guard and one call of a function of csrc/shim/calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from native_programs import CSRC

_DEFINED = re.compile(r"^PH_EXPORT \w+ (cu\w+)\([^{;]*\) noexcept \{\n((?:.*\n)*?)\}\n", re.M)
_CALLED = re.compile(r"calls::(?!place_of|handle)(\w+)\(")
_PART = re.compile(r"_v\d+$|_ptsz$|_ptds$")
_OTHER_NAMES = {
    "cudaDeviceSynchronize": "cuCtxSynchronize",
    "cudaLaunchKernelExC": "cuLaunchKernelEx",
}
# These differ by more than their names: in this.
APART = {
    "cudaDeviceCanAccessPeer": "a device is checked, and what fails is remembered, by the API",
    "cudaDeviceGetAttribute": "likewise",
    "cudaDeviceGetPCIBusId": "likewise",
    "cudaDeviceSynchronize": "the driver asks for a current context",
    "cudaDriverGetVersion": "one number",
    "cudaEventCreate": "the driver has flags",
    "cudaFuncGetName": "a host stub, or a loaded function",
    "cudaFuncSetAttribute": "likewise",
    "cudaGraphAddKernelNode": "likewise",
    "cudaGraphAddMemcpyNode": "positions and memory types are written in other ways",
    "cudaGraphExecKernelNodeSetParams": "a host stub, or a loaded function",
    "cudaLaunchCooperativeKernel": "likewise",
    "cudaLaunchKernel": "likewise",
    "cudaLaunchKernelExC": "likewise",
    "cudaMemGetInfo": "the driver asks for a current context",
    "cudaMemcpy": "a direction, or none",
    "cudaMemcpy2D": "likewise",
    "cudaMemcpy2DAsync": "likewise",
    "cudaMemcpyAsync": "likewise",
    "cudaMemcpyPeer": "devices, or contexts",
    "cudaMemcpyPeerAsync": "likewise",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor": "a host stub, or a loaded function",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": "likewise",
    "cudaPointerGetAttributes": "one structure, or attributes by number",
}


def _bodies(folder: str) -> dict[str, str]:
    """What each function of a library does, by its name."""
    paths = sorted((CSRC / "shim" / folder).glob("*.cc"))
    texts = [path.read_text(encoding="utf-8") for path in paths if path.name != "cuda12.cc"]
    return {name: body for text in texts for name, body in _DEFINED.findall(text)}


RUNTIME, DRIVER = _bodies("cudart"), _bodies("cuda")


def _twins() -> Iterator[tuple[str, str]]:
    plain = {_PART.sub("", name): name for name in DRIVER}
    for name in sorted(RUNTIME):
        other = _OTHER_NAMES.get(name, name.replace("cuda", "cu", 1))
        if other in plain:
            yield name, plain[other]


TWINS = list(_twins())


def test_twins_are_found() -> None:
    """Else nothing is compared."""
    assert len(TWINS) > 60
    assert sorted(APART.keys() - {name for name, _ in TWINS}) == []


@pytest.mark.parametrize(("runtime", "driver"), [one for one in TWINS if one[0] not in APART])
def test_twins_have_one_body(runtime: str, driver: str) -> None:
    """Both call the same functions of csrc/shim/calls, and do next to nothing beside."""
    bodies = RUNTIME[runtime], DRIVER[driver]
    theirs, ours = (set(_CALLED.findall(body)) for body in bodies)
    assert theirs == ours != set()
    for body in bodies:
        assert len(re.findall(r";$", body, re.M)) <= 4, body


@pytest.mark.parametrize(("runtime", "driver"), [one for one in TWINS if one[0] in APART])
def test_twins_that_are_apart_differ(runtime: str, driver: str) -> None:
    """Else they need not be."""
    assert _plain(RUNTIME[runtime]) != _plain(DRIVER[driver])


def _plain(body: str) -> str:
    """Without what every call has, and the names of its API."""
    return re.sub(r"PH_CALL\(.*\n|\"\w+\"|returned|result_of|\s|cuda|cu", "", body)
