"""Builds vendor libraries that do nothing, to measure what a training script costs by itself.

    python benchmarks/null_libraries/build.py DIRECTORY

Every symbol of the interception tables (csrc/shim/api) becomes a function that returns 0, except
for the few in the C files here, without which PyTorch's start or the example scripts would not get
through. Needs gcc and the CUDA headers that come with PyTorch's CUDA wheel.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))

from interception_tables import CUDA_MAJORS, Vendor, read_vendors, whole_table  # noqa: E402


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
    return [_build_one(directory, headers, vendor) for vendor in read_vendors()]


def _build_one(directory: Path, headers: Path, vendor: Vendor) -> Path:
    rows = whole_table(vendor.name, CUDA_MAJORS[-1])
    table = directory / f"{vendor.name}.def"
    table.write_text("\n".join(rows) + "\n", "ascii")
    exported = "; ".join(row.partition("(")[2].partition(",")[0] for row in rows)
    versions = directory / f"{vendor.name}.map"
    versions.write_text(f"{vendor.version_node} {{ global: {exported}; local: *; }};\n", "ascii")
    library = directory / vendor.soname
    bodies = HERE / f"{vendor.name}.c"
    sources = [str(HERE / "stubs.c"), *([str(bodies)] if bodies.exists() else [])]
    command = ["gcc", "-std=gnu17", "-O2", "-fPIC", "-shared", "-Wall", "-Werror", "-fno-builtin"]
    command += [f"-isystem{headers}", f'-DTABLE="{table}"', *sources, "-o", str(library)]
    command += [f"-Wl,-soname,{vendor.soname}", f"-Wl,--version-script,{versions}"]
    subprocess.run(command, check=True)
    return library


if __name__ == "__main__":
    for built in build(Path(sys.argv[1])):
        print(built)
