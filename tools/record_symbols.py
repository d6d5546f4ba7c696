"""Records what the vendor's libraries export and what torch imports from them.

    pip install torch --target SITE; pip install nvidia-nvml-dev --target SITE
    python tools/record_symbols.py SITE [SITE ...] [--cuda 13] [--library NAME ...] [--torch-only]

SITE is a site-packages folder with the stock CUDA wheel of torch; NVML's header may lie in another
one. Writes csrc/shim/symbols/<set>/<library>.txt and phantora_py/symbols/torch-<version>.txt. Rows
of csrc/shim/api that the vendor no longer exports are reported, and the exit code is then 1. With
`--cuda 12` these are the libraries with another SONAME; with `--torch-only` no library is recorded.

Needs `nm` and `gcc` (the preprocessor), nothing else.
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

from declarations import DRIVER_CONFIGURATIONS, NVML_CONFIGURATIONS, read_statuses
from interception_tables import (
    CUDA_MAJORS,
    Vendor,
    read_rows,
    read_symbols,
    read_vendors,
    write_symbols,
)

ROOT = Path(__file__).resolve().parent.parent

# The driver's libraries, whose entry points torch mostly finds with dlsym.
LOOKED_UP = ("libcuda.so.1", "libnvidia-ml.so.1")
# What only the CUDA runtime looks up. A library with this name has a runtime within it, and so the
# names of all that any program may call.
OF_A_RUNTIME = "cuGetExportTable"


@dataclass(frozen=True)
class Recording:
    """The names a library exports and where they were read."""

    source: str
    names: frozenset[str]


def recorded(cuda: int) -> dict[str, frozenset[str]]:
    """By SONAME, what the libraries of a CUDA major export."""
    own = read_vendors(cuda)
    replaced = {vendor.name for vendor in own}
    newest = CUDA_MAJORS[-1]
    common = [vendor for vendor in read_vendors() if vendor.name not in replaced]
    places = [(vendor, cuda) for vendor in own] + [(vendor, newest) for vendor in common]
    return {vendor.soname: frozenset(read_symbols(vendor.name, major)) for vendor, major in places}


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


def keep(vendor: Vendor, recording: Recording, sites: list[Path], cuda: int) -> list[str]:
    """Writes what a library exports; returns the rows of ours that it does not export."""
    headers = [folder for site in sites for folder in sorted(site.glob("nvidia/*/include"))]
    statuses = read_statuses(vendor.name, headers)
    if statuses is None:
        raise SystemExit(f"no wheel there has all headers of {vendor.name}")
    symbols = {name: name in statuses for name in recording.names}
    write_symbols(vendor.name, cuda, f"{vendor.soname}, {recording.source}", symbols)
    print(f"{vendor.name}: {len(symbols)} symbols, {sum(symbols.values())} return a status")
    return sorted(read_rows(vendor.name, cuda).keys() - symbols.keys())


def strings_in(library: Path, prefixes: tuple[str, ...]) -> set[str]:
    """Whole C strings in `library` that look like an entry point with one of `prefixes`."""
    pattern = re.compile(rb"\0((?:" + "|".join(prefixes).encode() + rb")[A-Z]\w{2,80})(?=\0)")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        return {match.group(1).decode() for match in pattern.finditer(image)}


def looked_up(library: Path) -> set[str]:
    """Names for dlsym of the driver and NVML."""
    names = strings_in(library, ("cu", "nvml"))
    return set() if OF_A_RUNTIME in names else names


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
        reached["looked-up"] |= looked_up(library)
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
        unknown = keep(vendor, recording, arguments.sites, cuda)
        stale += [f"{vendor.name}: {name}" for name in unknown]
    if not arguments.library:
        record_torch(arguments.sites, recorded(cuda))
    for row in stale:
        print(f"a row of csrc/shim/api that the vendor does not export: {row}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
