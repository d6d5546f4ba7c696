"""A vendor library asked for by path is ours, and every other library is what it would be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phantora_py.launch.libraries import preload_list, preload_value, shim_directory


def run_preloaded(code: str, *arguments: str) -> str:
    """The output of a Python program under our libraries, without a run to attach to."""
    preload = preload_value(preload_list(shim_directory()), os.environ)
    environment = {**os.environ, "LD_PRELOAD": preload}
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("name", ["libnccl.so", "libnccl.so.2", "libnccl.so.2.30.7"])
def test_path_of_vendor_library_opens_ours(name: str) -> None:
    """The folder does not matter, and of the version only the major number does."""
    code = """
import ctypes, sys
print(ctypes.CDLL("/nowhere/" + sys.argv[1])._handle == ctypes.CDLL("libnccl.so.2")._handle)
"""
    assert run_preloaded(code, name) == "True"


@pytest.mark.parametrize("name", ["libnccl.so.1", "libnccl.so.20", "libnccl_net.so", "libncc"])
def test_other_library_is_not_replaced(name: str) -> None:
    """Another major version and a name that only begins like ours fail as they would."""
    code = """
import ctypes, sys
try:
    ctypes.CDLL("/nowhere/" + sys.argv[1])
except OSError as error:
    print(error)
"""
    assert run_preloaded(code, name).startswith(f"/nowhere/{name}: cannot open")


def test_runpath_of_the_caller_holds(tmp_path: Path) -> None:
    """A library that dlopens a neighbour by bare name finds it by its own RUNPATH."""
    (tmp_path / "inner.c").write_text("int answer(void) { return 42; }\n")
    (tmp_path / "outer.c").write_text(
        '#include <dlfcn.h>\nint found(void) { return dlopen("libph_inner.so", RTLD_NOW) != 0; }\n'
    )
    for name, options in (("inner", []), ("outer", ["-Wl,--enable-new-dtags,-rpath,$ORIGIN"])):
        output = tmp_path / f"libph_{name}.so"
        command = ["cc", "-shared", "-fPIC", str(tmp_path / f"{name}.c"), "-o", str(output)]
        subprocess.run([*command, *options], check=True)
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).found())"
    assert run_preloaded(code, str(tmp_path / "libph_outer.so")) == "1"


@pytest.mark.torch
def test_import_of_torch_maps_no_vendor_library() -> None:
    """PyTorch preloads the CUDA wheels by path; it gets ours, and theirs stay on disk."""
    code = """
import torch
print(*{line.split()[-1] for line in open("/proc/self/maps") if "/nvidia/" in line}, sep="\\n")
"""
    mapped = {Path(line).name for line in run_preloaded(code).splitlines()}
    ours = {path.name for path in preload_list(shim_directory())}
    assert mapped & ours == set()


@pytest.mark.parametrize("cuda_major", [12, 13])
def test_the_driver_can_be_linked_to(tmp_path: Path, cuda_major: int) -> None:
    """With -lcuda and our folder, as older Triton does, one needs the driver's library."""
    source, linked = tmp_path / "asks.c", tmp_path / "asks.so"
    source.write_text("int cuInit(unsigned); int ask(void) { return cuInit(0); }\n")
    folder = shim_directory(cuda_major)
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-shared", "-fPIC", str(source), "-o", str(linked), f"-L{folder}", "-lcuda"],
        check=True,
    )
    assert b"\0libcuda.so.1\0" in linked.read_bytes()
