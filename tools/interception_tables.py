"""The interception tables: what the vendors' libraries export, and what each call does with us.

    python tools/interception_tables.py LIBRARY [--cuda 13]

prints the whole table of a library, as the build compiles it. A table has two sources:

* csrc/shim/symbols/cuda<major>/<library>.txt, recorded by record_symbols.py: the names that the
  vendor's library exports. ` undeclared` follows a name that no header declares to return a status.
* csrc/shim/api/<library>.def, written by hand: the rows of the calls that are more than a default.

Any other name gets a default row: Unsupported, or Undeclared where the list says so. The libraries
of CUDA 12 have the rows of CUDA 13 too, and what api/cuda12 and symbols/cuda12 have beyond them.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

SHIM = Path(__file__).resolve().parent.parent / "csrc" / "shim"
CUDA_MAJORS = (12, 13)
_UNDECLARED = " undeclared"


@dataclass(frozen=True)
class Vendor:
    """One line of vendors.cmake."""

    name: str
    soname: str
    version_node: str


def read_vendors(cuda: int = CUDA_MAJORS[-1]) -> list[Vendor]:
    """The libraries that we replace, from the list the build uses; of CUDA 12 those that differ."""
    pattern = re.compile(r'^vendor_library\((\w+) (\S+) "?([^"\s)]*)"?\)', re.MULTILINE)
    name = "vendors.cmake" if cuda == CUDA_MAJORS[-1] else f"vendors-cuda{cuda}.cmake"
    return [Vendor(*match.groups()) for match in pattern.finditer((SHIM / name).read_text())]


def symbols_path(library: str, cuda: int) -> Path:
    """Where the names that a library exports are kept."""
    return SHIM / "symbols" / f"cuda{cuda}" / f"{library}.txt"


def rows_path(library: str, cuda: int) -> Path:
    """The rows written by hand; of an earlier CUDA major, what only that has."""
    folder = SHIM / "api"
    return (folder if cuda == CUDA_MAJORS[-1] else folder / f"cuda{cuda}") / f"{library}.def"


def read_symbols(library: str, cuda: int) -> dict[str, bool]:
    """By name, whether a header declares that the call returns a status; none without a list."""
    path = symbols_path(library, cuda)
    lines = path.read_text("ascii").splitlines()[1:] if path.exists() else []
    return {line.removesuffix(_UNDECLARED): not line.endswith(_UNDECLARED) for line in lines}


def write_symbols(library: str, cuda: int, source: str, symbols: dict[str, bool]) -> None:
    """Keeps the names that a library exports, below a line that says where they come from."""
    path = symbols_path(library, cuda)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [name + ("" if symbols[name] else _UNDECLARED) for name in sorted(symbols)]
    path.write_text("\n".join([f"# {source}", *lines]) + "\n", "ascii")


def read_rows(library: str, cuda: int) -> dict[str, str]:
    """The rows written by hand, by name; none of a table that there is not."""
    path = rows_path(library, cuda)
    lines = path.read_text("ascii").splitlines() if path.exists() else []
    return {line.partition("(")[2].partition(",")[0]: line for line in lines}


def default_row(name: str, *, returns_status: bool) -> str:
    """The row of a call that we know nothing more about."""
    return f'API({name}, {"Unsupported" if returns_status else "Undeclared"}, "")'


def whole_table(library: str, cuda: int) -> list[str]:
    """All rows of a library, sorted by name. Raises: ValueError of a row without a symbol."""
    majors = sorted({cuda, CUDA_MAJORS[-1]})  # what both have is as in the newest
    symbols: dict[str, bool] = {}
    written: dict[str, str] = {}
    for major in majors:
        symbols |= read_symbols(library, major)
        written |= read_rows(library, major)
    if stale := sorted(written.keys() - symbols.keys()):
        raise ValueError(
            f"{rows_path(library, cuda)}: the vendor's library does not export {', '.join(stale)}"
        )
    return [
        written.get(name) or default_row(name, returns_status=symbols[name])
        for name in sorted(symbols)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", choices=[vendor.name for vendor in read_vendors()])
    parser.add_argument("--cuda", type=int, choices=CUDA_MAJORS, default=CUDA_MAJORS[-1])
    arguments = parser.parse_args()
    print("\n".join(whole_table(arguments.library, arguments.cuda)))


if __name__ == "__main__":
    main()
