"""The numbers by which CUPTI tells calls of the CUDA APIs apart.

    python tools/callback_ids.py SITE-PACKAGES > csrc/shim/cupti/callback_ids.def

SITE-PACKAGES has the wheel of CUPTI, whose headers list them (cupti_runtime_cbid.h and
cupti_driver_cbid.h). Written are the calls of our interception tables. A number keeps its meaning
from version to version, so that the newest headers serve all.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from interception_tables import CUDA_MAJORS, read_symbols

HEADERS = {
    "Runtime": ("cudart", "cupti_runtime_cbid.h", "CUPTI_RUNTIME_TRACE_CBID_"),
    "Driver": ("cuda", "cupti_driver_cbid.h", "CUPTI_DRIVER_TRACE_CBID_"),
}
# The version of CUDA from which a call of the runtime API is.
_SINCE = re.compile(r"_v\d{4,}$")


def find_header(site: Path, name: str) -> Path:
    """A header of CUPTI in a site-packages folder."""
    for header in sorted(site.glob(f"nvidia/*/include/{name}")):
        return header
    raise SystemExit(f"no wheel of CUPTI in {site} has {name}: pip install nvidia-cuda-cupti")


def read_ids(header: Path, prefix: str) -> dict[str, int]:
    """By CUPTI's name of a call, its number."""
    pattern = re.compile(rf"\b{prefix}(\w+)\s*=\s*(\d+)\s*,")
    names = {name: int(number) for name, number in pattern.findall(header.read_text("ascii"))}
    return {name: number for name, number in names.items() if name not in ("INVALID", "SIZE")}


def callback_rows(site: Path) -> list[str]:
    """A row for each call of our tables that CUPTI knows: domain, our name, number, its name."""
    rows = []
    for domain, (library, name, prefix) in HEADERS.items():
        ours: set[str] = set()
        for major in CUDA_MAJORS:
            ours |= read_symbols(library, major).keys()
        found: dict[str, tuple[int, str]] = {}
        ids = read_ids(find_header(site, name), prefix)
        for theirs, number in sorted(ids.items(), key=lambda item: item[1]):
            symbol = _SINCE.sub("", theirs) if domain == "Runtime" else theirs
            # The second version of a call of the runtime API is exported as its `_v2`.
            version = 2
            while symbol in found:
                symbol = f"{_SINCE.sub('', theirs)}_v{version}"
                version += 1
            found[symbol] = (number, theirs)
        rows += [
            f"CALLBACK({domain}, {symbol}, {number}, {theirs})"
            for symbol, (number, theirs) in sorted(found.items())
            if symbol in ours and not symbol.startswith("__")
        ]
    return rows


def main() -> int:
    """Prints the rows."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: callback_ids.py SITE-PACKAGES")
    print("\n".join(callback_rows(Path(sys.argv[1]))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
