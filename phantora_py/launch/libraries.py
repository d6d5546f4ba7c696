"""Our replacement libraries: where they lie, how they are preloaded, what their tables say.

The tables are those compiled into the libraries, read through the C functions of
`csrc/shim/calls/exports.cc`; nothing here parses the `.def` files.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sim_server.errors import InternalError

CUDA_MAJOR = 13
"""Of programs of which nothing else is known."""
CORE = "libphantora_core.so"
COUNTING = "libphantora_counting.so"

# Run under the libraries: prints [library, SONAME, [[name, support, note], ...]] per table.
_READER = """
import ctypes, json
core = ctypes.CDLL(None)
for name in ("ph_table_library", "ph_table_soname", "ph_row_name", "ph_row_note"):
    getattr(core, name).restype = ctypes.c_char_p
for name in ("ph_table_count", "ph_table_rows"):
    getattr(core, name).restype = ctypes.c_size_t
def read_row(*place):
    name, note = core.ph_row_name(*place), core.ph_row_note(*place)
    return name.decode(), core.ph_row_support(*place), note.decode()
def read_table(table):
    rows = [read_row(table, ctypes.c_size_t(row)) for row in range(core.ph_table_rows(table))]
    return core.ph_table_library(table).decode(), core.ph_table_soname(table).decode(), rows
tables = [read_table(ctypes.c_size_t(table)) for table in range(core.ph_table_count())]
print(json.dumps(tables))
"""


class Support(Enum):
    """What happens at a call, in the order of `ph::Support`."""

    MODELLED = 0
    IGNORED = 1
    PASS_THROUGH = 2
    UNSUPPORTED = 3
    UNDECLARED = 4
    """Likewise, and nothing says what an answer would look like."""


@dataclass(frozen=True)
class Row:
    """One symbol that a vendor's library exports."""

    name: str
    support: Support
    note: str

    @property
    def partial(self) -> bool:
        """Modelled, except for what the note says."""
        return self.support is Support.MODELLED and bool(self.note)


@dataclass(frozen=True)
class Table:
    """One library of ours."""

    library: str
    soname: str
    rows: tuple[Row, ...]


def shim_directory(cuda_major: int = CUDA_MAJOR) -> Path:
    """The folder with the libraries of one CUDA major, in a wheel and in an editable install.

    Raises: InternalError if the installation has none.
    """
    cuda_set = f"cuda{cuda_major}"
    spec = importlib.util.find_spec("phantora_py")
    # An editable install has two locations: the sources, and what was built for them.
    for location in (spec and spec.submodule_search_locations) or ():
        directory = Path(location) / "shim" / cuda_set
        if (directory / CORE).exists():
            return directory
    raise InternalError(
        f"This installation of phantora has no libraries for {cuda_set} "
        f"(phantora_py/shim/{cuda_set}/{CORE}). Install it again: pip install ."
    )


def preload_list(directory: Path) -> list[Path]:
    """What LD_PRELOAD must name: the core, then the vendors' libraries."""
    others = sorted(path for path in directory.glob("*.so.*") if path.is_file())
    return [directory / CORE, *others]


def counting_library(directory: Path) -> Path:
    """What is preloaded, too, where a run counts its host's work."""
    return directory / COUNTING


def preload_value(libraries: Iterable[Path], inherited: Mapping[str, str]) -> str:
    """LD_PRELOAD for `libraries`, before what the environment `inherited` preloads already."""
    names = [*map(str, libraries), inherited.get("LD_PRELOAD", "")]
    return ":".join(name for name in names if name)


@functools.cache
def read_tables(directory: Path) -> tuple[Table, ...]:
    """The tables of all libraries in `directory`, by library.

    They are read in a child process: the core keeps its clock in static thread-local storage, for
    which there is room only in a process that starts with it.

    Raises: InternalError if the libraries cannot be loaded.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PHANTORA_")}
    environment["LD_PRELOAD"] = preload_value(preload_list(directory), environment)
    command = [sys.executable, "-c", _READER]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    # The loader goes on without a library that it cannot preload, and says so.
    if child.returncode != 0 or "LD_PRELOAD" in child.stderr:
        raise InternalError(
            f"The libraries in {directory} cannot be loaded: {child.stderr.strip()}"
        )
    tables = [
        Table(library, soname, tuple(Row(name, Support(value), note) for name, value, note in rows))
        for library, soname, rows in json.loads(child.stdout)
    ]
    return tuple(sorted(tables, key=lambda table: table.library.lower()))
