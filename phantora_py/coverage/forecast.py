"""What a program may call and we do not model, from its files, before it runs.

Reads the shared libraries of the packages that the program's interpreter finds, and the program's
own imports; runs and loads nothing. What that cannot tell is in NOT_KNOWN.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phantora_py.coverage import MISSING, REACHES
from phantora_py.coverage.elf import SharedLibrary, read_library
from phantora_py.launch.command import Form, Program
from phantora_py.launch.interpreter import SUPPORTED_CUDA_MAJORS, Torch
from phantora_py.launch.libraries import CORE, CUDA_MAJOR, Table, read_tables, shim_directory

NOT_KNOWN = (
    "which of these calls the program makes: most belong to features that it does not use",
    "what is loaded by a path that the program puts together, and what it has others start",
    "kernels and extensions that are compiled while it runs",
    "arguments: a call that is modelled in part may be made with what is not "
    "(phantora coverage --library NAME has the notes)",
)

# The vendor's own libraries: replaced, or left to work without a GPU. Profilers come with other
# packages too; they list every call by name, and make none.
_VENDOR = "nvidia"
_PROFILERS = ("libcupti", "libnvperf", "libcheckpoint", "libpcsampling")
# The driver's entry points are mostly looked up by name; so are NVML's.
_LOOKED_UP = ("cuda", "nvml")
_STRING = re.compile(rb"\0((?:cu|nvml)[A-Z]\w{2,80})(?=\0)")
# What the CUDA runtime reaches the driver by, where it is linked into a library: not with it as
# a library of its own. Found in every library of CUDA 12.8 and 13.2 that has it inside.
_RUNTIME_INSIDE = (b"\0cuGetExportTable\0", b"libcuda.so.1\0", b"__cudaRegisterFatBinary\0")


@dataclass(frozen=True, order=True)
class Gap:
    """A call that a library can make and we do not model. `how`: see coverage.REACHES."""

    library: str
    symbol: str
    how: str


@dataclass
class Package:
    """Shared libraries that belong together. `named`: the program's own files import it."""

    name: str
    named: bool
    gaps: set[Gap] = field(default_factory=set)
    troubles: list[str] = field(default_factory=list)
    """What stops the run, or leads past the simulation, as soon as the package is used."""


@dataclass(frozen=True)
class _Known:
    """The tables of the ranks' CUDA major."""

    major: int
    replaced: frozenset[str]
    """Names of the files that the ranks have of us."""
    missing: dict[str, str]
    """Library by symbol."""
    others: dict[str, int]
    """CUDA major by SONAME, of the libraries of other majors."""


def forecast(program: Program) -> list[Package]:
    """What each package that calls CUDA libraries would miss; those that the program names first.

    Raises: OSError if a file that is there cannot be read.
    """
    known = _known(program.torch)
    named = imported_names(program)
    packages: dict[str, Package] = {}
    for name, path in _libraries(program):
        skipped = path.name in known.replaced or path.name.startswith(_PROFILERS)
        library = None if skipped else read_library(path)
        if library is not None:
            package = packages.setdefault(name, Package(name, name in named))
            _examine(library, known, package)
    for package in packages.values():
        package.gaps = _surest(package.gaps)
    found = [package for package in packages.values() if package.gaps or package.troubles]
    return sorted(found, key=lambda package: (not package.named, package.name))


def imported_names(program: Program) -> set[str]:
    """First parts of the modules that the program's own files import: its script, and what lies
    beside it.
    """
    target = Path(program.target)
    if program.form is Form.MODULE:
        first = program.target.partition(".")[0]
        return {first} | _follow(_own_files(Path.cwd(), first))
    if program.form is Form.SCRIPT and target.is_file():
        return {target.name} | _follow([target])
    return {Path(program.argv[0]).name}


def _follow(files: Iterable[Path]) -> set[str]:
    names: set[str] = set()
    ahead, seen = list(files), set()
    while ahead:
        file = ahead.pop()
        if file in seen:
            continue
        seen.add(file)
        for name in _imports(file) - names:
            names.add(name)
            ahead += _own_files(file.parent, name)
    return names


def _own_files(directory: Path, name: str) -> list[Path]:
    module = directory / f"{name}.py"
    return [module] if module.is_file() else list((directory / name).glob("**/*.py"))


def _imports(file: Path) -> set[str]:
    """None of a file that is no Python: whoever runs it will be told."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


def _known(torch: Torch | None) -> _Known:
    major = torch.cuda_major if torch and torch.cuda else CUDA_MAJOR
    tables = read_tables(shim_directory(major))
    ours = {table.soname for table in tables}
    others = {
        table.soname: other
        for other in SUPPORTED_CUDA_MAJORS
        for table in read_tables(shim_directory(other))
        if table.soname not in ours
    }
    replaced = frozenset({CORE, *ours, *others})
    return _Known(major, replaced, _missing(tables), others)


def _missing(tables: Sequence[Table]) -> dict[str, str]:
    return {
        row.name: table.library for table in tables for row in table.rows if row.support in MISSING
    }


def _libraries(program: Program) -> Iterator[tuple[str, Path]]:
    """Shared libraries with the package that they belong to. The first place of a name counts, as
    it does for the interpreter.
    """
    if program.form is Form.OTHER and program.interpreter is None:
        yield Path(program.argv[0]).name, Path(program.argv[0])
    seen = {_VENDOR}
    own = [Path(program.target).parent] if program.form is Form.SCRIPT else []
    for place in [*own, *map(Path, program.interpreter.path if program.interpreter else ())]:
        entries = sorted(place.iterdir()) if place.is_dir() else []
        names = {entry: entry.name.partition(".")[0] for entry in entries}
        # Data of the program may lie beside it, in folders without end.
        for entry in [one for one in entries if names[one] not in seen]:
            if entry.is_file():
                files = [entry]
            elif place in own and not (entry / "__init__.py").exists():
                files = []
            else:
                files = sorted(entry.glob("**/*.so*"))
            for file in files:
                if ".so" in file.suffixes and file.is_file() and not file.is_symlink():
                    yield names[entry], file
        seen |= set(names.values())


def _surest(gaps: set[Gap]) -> set[Gap]:
    """Each call once, as the first of REACHES that leads to it."""
    order = list(REACHES)
    ranked = sorted(gaps, key=lambda gap: order.index(gap.how), reverse=True)
    return set({gap.symbol: gap for gap in ranked}.values())


def _examine(library: SharedLibrary, known: _Known, package: Package) -> None:
    how = "linalg" if library.path.name == "libtorch_cuda_linalg.so" else "imported"
    for symbol in library.imports & known.missing.keys():
        package.gaps.add(Gap(known.missing[symbol], symbol, how))
    for match in _STRING.finditer(library.constants):
        symbol = match[1].decode()
        owner = known.missing.get(symbol)
        if owner in _LOOKED_UP and symbol not in library.imports:
            package.gaps.add(Gap(owner, symbol, "looked-up"))
    if all(mark in library.constants for mark in _RUNTIME_INSIDE):
        package.troubles.append(
            f"{library.path.name} has the CUDA runtime inside (linked statically). That reaches "
            "the driver through tables that are not public, so the run stops at its first call. "
            "Build it with the shared runtime (nvcc --cudart shared)."
        )
    for soname in library.needed:
        if soname in known.others:
            package.troubles.append(
                f"{library.path.name} needs {soname}, of CUDA {known.others[soname]}; the ranks "
                f"have the libraries of CUDA {known.major}, as torch does. Install the build for "
                f"CUDA {known.major}."
            )
