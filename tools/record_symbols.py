"""Records what the vendor's libraries export and what torch imports from them.

    pip install torch --target SITE; pip install nvidia-nvml-dev --target SITE
    python tools/record_symbols.py SITE [SITE ...] [--cuda 13] [--library NAME ...] [--torch-only]

SITE is a site-packages folder with the stock CUDA wheel of torch; NVML's header may lie in another
one. Writes tests/symbols/<set>/<library>.txt and phantora_py/symbols/torch-<version>.txt, and adds
rows that a table lacks as Undeclared; tools/declarations.py tells which of them return a status. A
row is never dropped or changed: rows that the vendor no longer exports are reported, and the exit
code is then 1. With `--cuda 12` these are the libraries
with another SONAME, and the rows that only they have; with `--torch-only` no library is recorded.

Needs `nm` and `gcc` (the preprocessor, for cuda.h and nvml.h), nothing else.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import mmap
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIM = ROOT / "csrc" / "shim"
CUDA_MAJORS = (12, 13)

# The driver's libraries, whose entry points torch mostly finds with dlsym.
LOOKED_UP = ("libcuda.so.1", "libnvidia-ml.so.1")

# Each configuration of a header shows other names: a default stream per thread, and versions kept
# for old programs.
DRIVER_CONFIGURATIONS = ("CUDA_API_PER_THREAD_DEFAULT_STREAM", "__CUDA_API_VERSION_INTERNAL")
NVML_CONFIGURATIONS = ("NVML_NO_UNVERSIONED_FUNC_DEFS",)


@dataclass(frozen=True)
class Vendor:
    """One line of vendors.cmake."""

    name: str
    soname: str
    version_node: str


@dataclass(frozen=True)
class Recording:
    """The names a library exports and where they were read."""

    source: str
    names: frozenset[str]


def read_vendors(cuda: int = CUDA_MAJORS[-1]) -> list[Vendor]:
    """The libraries that we replace, from the list the build uses; of CUDA 12 those that differ."""
    pattern = re.compile(r'^vendor_library\((\w+) (\S+) "?([^"\s)]*)"?\)', re.MULTILINE)
    name = "vendors.cmake" if cuda == CUDA_MAJORS[-1] else f"vendors-cuda{cuda}.cmake"
    return [Vendor(*match.groups()) for match in pattern.finditer((SHIM / name).read_text())]


def recording_path(vendor: Vendor, cuda: int) -> Path:
    """Where the names that a library exports are kept."""
    return ROOT / "tests" / "symbols" / f"cuda{cuda}" / f"{vendor.name}.txt"


def recorded(cuda: int) -> dict[str, frozenset[str]]:
    """By SONAME, what the libraries of a CUDA major export."""
    own = read_vendors(cuda)
    replaced = {vendor.name for vendor in own}
    newest = CUDA_MAJORS[-1]
    common = [vendor for vendor in read_vendors() if vendor.name not in replaced]
    places = [(vendor, cuda) for vendor in own] + [(vendor, newest) for vendor in common]
    return {
        vendor.soname: frozenset(recording_path(vendor, major).read_text().splitlines()[1:])
        for vendor, major in places
    }


def read_rows(path: Path) -> dict[str, str]:
    """The rows of a table by name; none of a table that there is not."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.partition("(")[2].partition(",")[0]: line for line in lines}


def run_nm(library: Path, *options: str) -> list[str]:
    """Names in the dynamic symbol table of `library`, without version suffixes."""
    command = ["nm", "--dynamic", "--format=posix", *options, str(library)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in output.splitlines()]
    # 'A' is the version node itself.
    return [row[0].partition("@")[0] for row in rows if row[1] != "A"]


def find_file(sites: list[Path], pattern: str) -> tuple[Path, str]:
    """The one file that matches in the wheels of `sites`, and name and version of its wheel."""
    for site in sites:
        for file in sorted(site.glob(pattern)):
            relative = file.relative_to(site).as_posix()
            for wheel in importlib.metadata.distributions(path=[str(site)]):
                if any(str(entry) == relative for entry in wheel.files or ()):
                    return file, f"{wheel.metadata['Name']} {wheel.version}"
    raise SystemExit(f"no wheel in {', '.join(map(str, sites))} has {pattern}")


def declared(header: Path, configurations: tuple[str, ...], pattern: str) -> set[str]:
    """Names that `pattern` finds in `header` as the preprocessor leaves it."""
    names: set[str] = set()
    for options in ([], *([f"-D{macro}"] for macro in configurations)):
        command = ["gcc", "-E", "-P", *options, str(header)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        names.update(re.findall(pattern, text))
    return names


def record_driver(sites: list[Path]) -> Recording:
    """Entry points of libcuda.so.1 that the toolkit's headers declare; no wheel has the driver."""
    header, source = find_file(sites, "nvidia/cu13/include/cuda.h")
    names = declared(header, DRIVER_CONFIGURATIONS, r"\bCUresult\s+(cu\w+)\s*\(")
    profiler = header.with_name("cudaProfilerTypedefs.h").read_text()
    names.update(re.findall(r"\bPFN_(cuProfiler\w+?)_v\d+\)", profiler))
    return Recording(f"headers of {source}", frozenset(names))


def record_nvml(sites: list[Path]) -> Recording:
    """Entry points of libnvidia-ml.so.1, which comes with the driver too."""
    header, source = find_file(sites, "nvidia/cu13/include/nvml.h")
    pattern = r"\b(?:nvmlReturn_t|char\s*\*)\s+(nvml\w+)\s*\("
    return Recording(
        f"header of {source}", frozenset(declared(header, NVML_CONFIGURATIONS, pattern))
    )


def record(vendor: Vendor, sites: list[Path]) -> Recording:
    """What a library exports for C callers; C++ internals that leak out are left out."""
    if vendor.name == "cuda":
        return record_driver(sites)
    if vendor.name == "nvml":
        return record_nvml(sites)
    library, source = find_file(sites, f"nvidia/*/lib/{vendor.soname}")
    # Of what the linker adds, some versions of a library export three.
    names = set(run_nm(library, "--defined-only")) - {"__bss_start", "_edata", "_end"}
    names = {name for name in names if not name.startswith("_Z")}
    return Recording(source, frozenset(names))


def write_recording(vendor: Vendor, recording: Recording, cuda: int) -> None:
    """One name a line below a line that says where they come from."""
    path = recording_path(vendor, cuda)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"# {vendor.soname}, {recording.source}", *sorted(recording.names)]
    path.write_text("\n".join(lines) + "\n")


def update_table(vendor: Vendor, names: frozenset[str], cuda: int) -> list[str]:
    """Adds missing rows to the library's table; returns rows that the vendor does not export."""
    path = table = SHIM / "api" / f"{vendor.name}.def"
    if cuda != CUDA_MAJORS[-1]:
        path = table.parent / f"cuda{cuda}" / table.name
        names -= read_rows(table).keys()
    rows = read_rows(path)
    missing = names - rows.keys()
    if missing:
        rows |= {name: f'API({name}, Undeclared, "")' for name in missing}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(rows[name] for name in sorted(rows)) + "\n")
    print(f"{vendor.name}: {len(names)} symbols, {len(missing)} rows added")
    return sorted(rows.keys() - names)


def strings_in(library: Path, prefixes: tuple[str, ...]) -> set[str]:
    """Whole C strings in `library` that look like an entry point with one of `prefixes`."""
    pattern = re.compile(rb"\0((?:" + "|".join(prefixes).encode() + rb")[A-Z]\w{2,80})(?=\0)")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        return {match.group(1).decode() for match in pattern.finditer(image)}


def record_torch(sites: list[Path], exports: dict[str, frozenset[str]]) -> None:
    """What torch takes from the CUDA libraries, and how it reaches it.

    `imported` by the linker, by the library behind torch.linalg only (`linalg`), or `looked-up` by
    name in the driver and NVML.
    """
    init, source = find_file(sites, "torch/__init__.py")
    version = source.partition(" ")[2]
    reached: dict[str, set[str]] = {"imported": set(), "linalg": set(), "looked-up": set()}
    for library in sorted((init.parent / "lib").glob("*.so")):
        how = "linalg" if "linalg" in library.name else "imported"
        reached[how].update(run_nm(library, "--undefined-only"))
        reached["looked-up"] |= strings_in(library, ("cu", "nvml"))
    reached["linalg"] -= reached["imported"]
    reached["looked-up"] -= reached["imported"]
    lines = [f"# torch {version}: library, symbol, how torch reaches it"]
    for soname, names in sorted(exports.items()):
        for how, symbols in reached.items():
            if how != "looked-up" or soname in LOOKED_UP:
                lines += [f"{soname} {name} {how}" for name in sorted(names & symbols)]
    path = ROOT / "phantora_py" / "symbols" / f"torch-{'.'.join(version.split('.')[:2])}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    print(f"torch {version}: {len(lines) - 1} symbols")


def main() -> int:
    """Records the libraries asked for; the torch list needs them all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "sites", type=Path, nargs="+", metavar="SITE", help="a site-packages folder"
    )
    parser.add_argument("--library", action="append", help="only this table (repeatable)")
    parser.add_argument("--cuda", type=int, choices=CUDA_MAJORS, default=CUDA_MAJORS[-1])
    parser.add_argument("--torch-only", action="store_true")
    arguments = parser.parse_args()
    cuda = arguments.cuda
    stale: list[str] = []
    for vendor in () if arguments.torch_only else read_vendors(cuda):
        if arguments.library and vendor.name not in arguments.library:
            continue
        recording = record(vendor, arguments.sites)
        write_recording(vendor, recording, cuda)
        stale += [f"{vendor.name}: {name}" for name in update_table(vendor, recording.names, cuda)]
    if not arguments.library:
        record_torch(arguments.sites, recorded(cuda))
    for row in stale:
        print(f"not exported by the vendor any more: {row}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
