"""Builds vendor libraries that do nothing, to measure what a training script costs by itself.

    python benchmarks/null_libraries/build.py DIRECTORY

Every symbol of the interception tables (csrc/shim/api) becomes a function that returns 0, except
for the few in the C files here, without which PyTorch's start or the example scripts would not get
through. Needs gcc and the CUDA headers that come with PyTorch's CUDA wheel.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SHIM = HERE.parents[1] / "csrc" / "shim"
VENDOR = re.compile(r'^vendor_library\((\S+) (\S+) (?:""|(\S+))\)$', re.MULTILINE)
ROW = re.compile(r"^API\((\w+),", re.MULTILINE)


def cuda_headers() -> Path:
    """The folder of cuda_runtime_api.h. Raises: SystemExit where there is none."""
    spec = importlib.util.find_spec("nvidia")
    for location in (spec and spec.submodule_search_locations) or ():
        include = Path(location) / "cu13" / "include"
        if (include / "cuda_runtime_api.h").exists():
            return include
    raise SystemExit("no CUDA headers: pip install nvidia-cuda-runtime nvidia-cuda-crt")


def build(directory: Path) -> list[Path]:
    """Builds all libraries into `directory`; returns what LD_PRELOAD must name."""
    headers = cuda_headers()
    vendors = VENDOR.findall((SHIM / "vendors.cmake").read_text("ascii"))
    return [_build_one(directory, headers, *vendor) for vendor in vendors]


def _build_one(directory: Path, headers: Path, name: str, soname: str, version_node: str) -> Path:
    table = SHIM / "api" / f"{name}.def"
    exported = "; ".join(ROW.findall(table.read_text("ascii")))
    versions = directory / f"{name}.map"
    versions.write_text(f"{version_node} {{ global: {exported}; local: *; }};\n", "ascii")
    library = directory / soname
    bodies = HERE / f"{name}.c"
    sources = [str(HERE / "stubs.c"), *([str(bodies)] if bodies.exists() else [])]
    command = ["gcc", "-std=gnu17", "-O2", "-fPIC", "-shared", "-Wall", "-Werror", "-fno-builtin"]
    command += [f"-isystem{headers}", f'-DTABLE="{table}"', *sources, "-o", str(library)]
    command += [f"-Wl,-soname,{soname}", f"-Wl,--version-script,{versions}"]
    subprocess.run(command, check=True)
    return library


if __name__ == "__main__":
    for built in build(Path(sys.argv[1])):
        print(built)
