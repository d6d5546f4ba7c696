"""The interception tables: their form, their completeness, and what was built from them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
from record_symbols import read_vendors, run_nm

from phantora_py import coverage
from phantora_py.libraries import CORE, CUDA_SET, Row, Support, read_tables, shim_directory

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r'API\((\w+), (Modelled|Ignored|PassThrough|Unsupported), "([^"\\]*)"\)')
SUPPORT = {
    "Modelled": Support.MODELLED,
    "Ignored": Support.IGNORED,
    "PassThrough": Support.PASS_THROUGH,
    "Unsupported": Support.UNSUPPORTED,
}
# CUDA libraries that torch links and that are left to the vendor: they work without a GPU.
NOT_OURS = ("cuFile", "cupti", "nvshmem")


VENDORS = [(v.name, v.soname, v.version_node) for v in read_vendors()]
LIBRARIES = [name for name, _, _ in VENDORS]


def read_definition(library: str) -> list[str]:
    return (ROOT / "csrc" / "shim" / "api" / f"{library}.def").read_text("ascii").splitlines()


def read_rows(library: str) -> list[Row]:
    matches = [ROW.fullmatch(line) for line in read_definition(library)]
    return [Row(m[1], SUPPORT[m[2]], m[3]) for m in matches if m is not None]


def read_recorded(library: str) -> list[str]:
    path = ROOT / "tests" / "symbols" / CUDA_SET / f"{library}.txt"
    return path.read_text("ascii").splitlines()[1:]


def exported(library: Path) -> dict[str, str]:
    """Symbol to version node ("" where it has none)."""
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(library)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split()[:2] for line in output.splitlines()]
    names = [name.partition("@@") for name, kind in rows if kind != "A"]
    return {name: node for name, _, node in names}


@pytest.mark.parametrize("library", LIBRARIES)
def test_form(library: str) -> None:
    """Every line is a row of at most 100 columns; rows are sorted and unique."""
    lines = read_definition(library)
    assert [line for line in lines if not ROW.fullmatch(line) or len(line) > 100] == []
    names = [row.name for row in read_rows(library)]
    assert names == sorted(set(names))


@pytest.mark.parametrize("library", LIBRARIES)
def test_ignored_rows_say_why(library: str) -> None:
    """A call that succeeds without effect has a note that says why that is right."""
    silent = [r.name for r in read_rows(library) if r.support is Support.IGNORED and not r.note]
    assert silent == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_are_the_vendors_symbols(library: str) -> None:
    """The table has exactly the symbols recorded from the vendor's library."""
    assert [row.name for row in read_rows(library)] == read_recorded(library)


def test_every_symbol_has_one_library() -> None:
    """No two libraries export the same name: the first one preloaded would take both's calls."""
    names = [row.name for library in LIBRARIES for row in read_rows(library)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("library", "soname", "node"), VENDORS)
def test_exports_are_the_vendors_symbols(library: str, soname: str, node: str) -> None:
    """The built library exports the vendor's symbols and no others, under its version node."""
    expected = dict.fromkeys(read_recorded(library), node)
    assert exported(shim_directory() / soname) == expected


def test_core_exports_nothing_of_the_cpp_library() -> None:
    """Preloaded first, it would give the traced program pieces of another C++ runtime."""
    names = exported(shim_directory() / CORE)
    assert "ph_attach" in names
    foreign = [name for name in names if re.match(r"_Z(?!NK?2ph)", name)]
    assert foreign == []


def test_compiled_tables_are_the_definitions() -> None:
    """What the libraries say about themselves is what the .def files say."""
    compiled = {table.library: list(table.rows) for table in read_tables(shim_directory())}
    assert compiled == {library: read_rows(library) for library in LIBRARIES}


def test_coverage_page_is_current() -> None:
    """docs/coverage.md is what the compiled tables print."""
    page = coverage.markdown(read_tables(shim_directory()), coverage.read_torch_uses())
    assert (ROOT / "docs" / "coverage.md").read_text("ascii") == page, (
        "run: phantora coverage --markdown > docs/coverage.md"
    )


def test_recorded_uses_of_torch_have_rows() -> None:
    """What torch was recorded to call is in the table of the library it calls."""
    rows = {(soname, row.name) for name, soname, _ in VENDORS for row in read_rows(name)}
    uses = coverage.read_torch_uses()
    assert [use for use in uses if (use.soname, use.name) not in rows] == []
    assert {use.how for use in uses} == coverage.REACHES.keys()


@pytest.mark.torch
def test_imports_of_installed_torch_have_rows() -> None:
    """Every CUDA symbol that the installed torch imports is in a table of ours."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    ours = {row.name for library in LIBRARIES for row in read_rows(library)}
    imported: set[str] = set()
    for library in (Path(spec.origin).parent / "lib").glob("*.so"):
        imported.update(run_nm(library, "--undefined-only"))
    cuda = re.compile(r"(__cuda|__nvrtc|cu|nccl|nvml|nvrtc|nvJitLink)[A-Z]?\w*")
    foreign = {name for name in imported if name.startswith(NOT_OURS)}
    assert {name for name in imported - foreign if cuda.fullmatch(name)} - ours == set()
