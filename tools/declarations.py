"""Which calls that we do not model can be answered with an error: those that return a status.

    python tools/declarations.py SITE [SITE ...] [--cuda 13]

SITE is a site-packages folder with the vendors' wheels, as for record_symbols.py. Of the rows that
are not modelled, those that a header declares to return their library's status become Unsupported,
all others Undeclared: an integer would be no answer where a pointer or nothing is returned.

Needs `gcc` (the preprocessor), nothing else.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from record_symbols import (
    CUDA_MAJORS,
    DRIVER_CONFIGURATIONS,
    NVML_CONFIGURATIONS,
    SHIM,
    read_vendors,
)

# By library: its headers, and the type in which its calls say how they went.
HEADERS = {
    "cublas": (("cublas_v2.h", "cublas.h", "cublasXt.h"), "cublasStatus_t|cublasStatus"),
    "cublasLt": (("cublasLt.h",), "cublasStatus_t"),
    "cuda": (("cuda.h",), "CUresult"),
    "cudart": (("cuda_runtime_api.h",), "cudaError_t"),
    "cudnn": (("cudnn.h",), "cudnnStatus_t"),
    "cufft": (("cufft.h", "cufftXt.h"), "cufftResult"),
    "cusolver": (
        ("cusolverDn.h", "cusolverMg.h", "cusolverRf.h", "cusolverSp.h"),
        "cusolverStatus_t",
    ),
    "cusparse": (("cusparse.h",), "cusparseStatus_t"),
    "cusparseLt": (("cusparseLt.h",), "cusparseStatus_t"),
    "nccl": (("nccl.h", "nccl_device/core.h"), "ncclResult_t"),
    "nvJitLink": (("nvJitLink.h",), "nvJitLinkResult"),
    "nvml": (("nvml.h",), "nvmlReturn_t"),
    "nvrtc": (("nvrtc.h",), "nvrtcResult"),
}
_ROW = re.compile(r'API\((\w+), (Unsupported|Undeclared), "(.*)"\)')


def read_statuses(library: str, directories: Iterable[Path]) -> set[str] | None:
    """The calls of a library that its headers declare to return its status.

    None: `directories` have not all of its headers.
    """
    headers, status = HEADERS[library]
    directories = list(directories)
    found = [
        next((at / name for at in directories if (at / name).exists()), None) for name in headers
    ]
    names: set[str] = set()
    for header in found:
        if header is None:
            return None
        for options in ((), DRIVER_CONFIGURATIONS, NVML_CONFIGURATIONS):
            names |= _declared(header, status, directories, options)
    return names


def _declared(
    header: Path, status: str, directories: list[Path], macros: tuple[str, ...]
) -> set[str]:
    command = ["gcc", "-E", "-P", "-x", "c++", *(f"-D{macro}" for macro in macros)]
    command += [f"-isystem{directory}" for directory in directories]
    text = subprocess.run(
        [*command, str(header)], check=True, capture_output=True, text=True
    ).stdout
    # Calling conventions and attributes may stand between type and name.
    pattern = rf"\b(?:{status})\s+(?:__attribute__\s*\(\([^;]*?\)\)\s*)?(\w+)\s*\("
    return set(re.findall(pattern, text))


def mark(row: str, statuses: set[str]) -> str:
    """The row of a table as the headers have it; one that is modelled stays."""
    match = _ROW.fullmatch(row)
    if match is None:
        return row
    kind = "Unsupported" if match[1] in statuses else "Undeclared"
    return f'API({match[1]}, {kind}, "{match[3]}")'


def table_path(library: str, cuda: int) -> Path:
    """The table of a CUDA major: of an earlier one, what only that has."""
    folder = SHIM / "api"
    return (folder if cuda == CUDA_MAJORS[-1] else folder / f"cuda{cuda}") / f"{library}.def"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sites", type=Path, nargs="+", metavar="SITE")
    parser.add_argument("--cuda", type=int, choices=CUDA_MAJORS, default=CUDA_MAJORS[-1])
    arguments = parser.parse_args()
    directories = [one for site in arguments.sites for one in sorted(site.glob("nvidia/*/include"))]
    for vendor in read_vendors(arguments.cuda):
        path = table_path(vendor.name, arguments.cuda)
        statuses = read_statuses(vendor.name, directories)
        if statuses is None:
            raise SystemExit(f"no wheel there has all headers of {vendor.name}")
        if path.exists():
            rows = [mark(row, statuses) for row in path.read_text().splitlines()]
            path.write_text("\n".join(rows) + "\n")
            counts = [
                sum(f", {kind}," in row for row in rows) for kind in ("Unsupported", "Undeclared")
            ]
            print(f"{vendor.name}: {counts[0]} return a status, {counts[1]} do not")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
