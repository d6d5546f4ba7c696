"""Runs the programs of this folder on a GPU, with the vendor's libraries instead of ours.

    python tests/programs/run_real.py [PROGRAM ...]

Wants an environment with a CUDA build of PyTorch (its `nvidia` packages bring the libraries), the
headers (`pip install nvidia-cuda-crt` where they are incomplete), gcc and a driver. It needs
neither phantora nor pytest. Every line that a program prints is a difference: where the vendor's
libraries answer otherwise than ours, `program.c:line: call gives code, not code`, or where they end
the process, `program.c:line: call ends the program`.

Exit codes: 0 all programs passed, 1 some did not, 2 no GPU or no libraries.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from program_runs import (
    PROGRAMS,
    CompilationError,
    compile_program,
    find_cuda_headers,
    rank_count,
    rank_variables,
    reason_to_skip,
)

# What the programs link, in the packages; a release may lack one, whose programs then do not link.
SONAMES = (
    "libcudart.so.13",
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcusolver.so.12",
    "libcusparse.so.12",
    "libcupti.so.13",
    "libnccl.so.2",
    "libnvrtc.so.13",
)
# What comes with the driver.
DRIVER_SONAMES = ("libcuda.so.1", "libnvidia-ml.so.1")
TIMEOUT_S = 300


class NoVendorError(Exception):
    """The programs cannot run here; the text says why and what to do."""


@dataclass(frozen=True)
class Vendor:
    """The vendor's side of the environment."""

    headers: Path
    libraries: tuple[Path, ...]
    gpus: int

    @property
    def library_path(self) -> str:
        """LD_LIBRARY_PATH for what the libraries load themselves."""
        return ":".join(sorted({str(path.parent) for path in self.libraries}))


def find_vendor(site: Path) -> Vendor:
    """What is installed under `site` and in the system. Raises: NoVendorError."""
    packages = site / "nvidia"
    headers = find_cuda_headers([str(packages)])
    if headers is None:
        raise NoVendorError(
            f"no CUDA headers under {packages}: pip install nvidia-cuda-runtime nvidia-cuda-crt"
        )
    found = {path.name: path for path in packages.glob("*/lib/*.so.*")}
    if SONAMES[0] not in found:
        raise NoVendorError(f"no {SONAMES[0]} under {packages}: pip install torch (CUDA 13)")
    gpus = count_gpus(found[SONAMES[0]])
    driver = [path for soname in DRIVER_SONAMES if (path := find_loaded(soname)) is not None]
    libraries = [found[soname] for soname in SONAMES if soname in found]
    return Vendor(headers, (*libraries, *driver), gpus)


def count_gpus(runtime: Path) -> int:
    """The number of GPUs. Raises: NoVendorError with what the runtime says instead."""
    cudart = ctypes.CDLL(str(runtime))
    cudart.cudaGetErrorName.restype = cudart.cudaGetErrorString.restype = ctypes.c_char_p
    count = ctypes.c_int(0)
    code = cudart.cudaGetDeviceCount(ctypes.byref(count))
    if code != 0 or count.value == 0:
        name, text = cudart.cudaGetErrorName(code), cudart.cudaGetErrorString(code)
        raise NoVendorError(
            f"no GPU: cudaGetDeviceCount says {name.decode()} ({code}): {text.decode()}"
        )
    return count.value


def find_loaded(soname: str) -> Path | None:
    """Where the dynamic loader takes a library of the driver from."""
    try:
        ctypes.CDLL(soname)
    except OSError:
        return None
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith(soname.split(".so", maxsplit=1)[0]):
            return path.with_name(soname) if path.with_name(soname).exists() else path
    return None


def run_program(source: Path, vendor: Vendor, directory: Path) -> tuple[bool, str]:
    """Whether the program passed, and what it said."""
    binary, ranks = directory / source.stem, rank_count(source)
    try:
        compile_program(source, binary, vendor.headers, vendor.libraries)
    except CompilationError as error:
        return False, str(error)
    processes = [
        subprocess.Popen(
            [str(binary)],
            env={**environment(vendor), **rank_variables(rank, ranks, directory)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        ended = [(process.communicate(timeout=TIMEOUT_S)[1], process) for process in processes]
    except subprocess.TimeoutExpired:
        return False, f"not finished after {TIMEOUT_S} s\n"
    finally:
        for process in processes:
            process.kill()
    said = "".join(errors for errors, _ in ended)
    codes = [process.returncode for _, process in ended]
    if any(code < 0 for code in codes):
        said += f"ended by signal {-min(codes)}\n"
    return not any(codes), said


def environment(vendor: Vendor) -> Mapping[str, str]:
    """The programs' environment: the vendor's libraries, nothing preloaded."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return {**kept, "LD_LIBRARY_PATH": vendor.library_path}


def report(sources: Sequence[Path], vendor: Vendor) -> bool:
    """Runs the programs, a line each; True if all passed."""
    failed = 0
    for source in sources:
        reason = reason_to_skip(source)
        if rank_count(source) > vendor.gpus:
            reason = f"needs {rank_count(source)} GPUs"
        if reason:
            print(f"skip  {source.stem}: {reason}")
            continue
        with tempfile.TemporaryDirectory() as directory:
            passed, said = run_program(source, vendor, Path(directory))
        failed += not passed
        print(f"{'pass' if passed else 'FAIL'}  {source.stem}", flush=True)
        print("".join(f"      {line}\n" for line in said.splitlines()), end="")
    print(f"{failed} of {len(sources)} programs failed on {vendor.gpus} GPUs")
    return failed == 0


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="Run the test programs on a real GPU.")
    parser.add_argument("program", nargs="*", help="names without .c; all if none is given")
    parser.add_argument(
        "--site",
        type=Path,
        default=Path(sysconfig.get_path("purelib")),
        help="site-packages with the nvidia packages; this environment's if not given",
    )
    options = parser.parse_args(arguments)
    known = {source.stem: source for source in PROGRAMS}
    for name in set(options.program) - known.keys():
        parser.error(f"no program {name!r}; there are: {', '.join(known)}")
    try:
        vendor = find_vendor(options.site)
    except NoVendorError as error:
        print(f"run_real: {error}", file=sys.stderr)
        return 2
    sources = [known[name] for name in options.program] or PROGRAMS
    return 0 if report(sources, vendor) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
