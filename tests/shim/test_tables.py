"""The interception tables: their form, their completeness, and what was built from them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import interception_tables
import pytest
from interception_tables import CUDA_MAJORS, SHIM, Vendor, read_symbols, read_vendors, whole_table
from record_symbols import recorded, run_nm

from phantora_py import coverage
from phantora_py.launch.interpreter import inspect_interpreter
from phantora_py.launch.libraries import (
    CORE,
    COUNTING,
    Row,
    Support,
    read_tables,
    shim_directory,
)

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(
    r'API\((\w+), (Modelled|Ignored|PassThrough|Unsupported|Undeclared), "([^"\\]*)"\)'
)
SUPPORT = {
    "Modelled": Support.MODELLED,
    "Ignored": Support.IGNORED,
    "PassThrough": Support.PASS_THROUGH,
    "Unsupported": Support.UNSUPPORTED,
    "Undeclared": Support.UNDECLARED,
}
# CUDA libraries that torch links and that are left to the vendor: they work without a GPU.
NOT_OURS = ("cuFile", "nvshmem")

VENDORS = [(v.name, v.soname, v.version_node) for v in read_vendors()]
LIBRARIES = [name for name, _, _ in VENDORS]
RECORDED = recorded(13)
WRITTEN = sorted((SHIM / "api").rglob("*.def"))


def parse_rows(lines: list[str]) -> list[Row]:
    matches = [ROW.fullmatch(line) for line in lines]
    return [Row(m[1], SUPPORT[m[2]], m[3]) for m in matches if m is not None]


def read_rows(library: str, cuda: int = 13) -> list[Row]:
    return parse_rows(whole_table(library, cuda))


def exported(library: Path) -> dict[str, str]:
    """Symbol to version node ("" where it has none)."""
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(library)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split()[:2] for line in output.splitlines()]
    names = [name.partition("@@") for name, kind in rows if kind != "A"]
    return {name: node for name, _, node in names}


@pytest.mark.parametrize(
    "path", WRITTEN, ids=lambda path: path.relative_to(SHIM / "api").as_posix()
)
def test_form(path: Path) -> None:
    """Every line is a row of at most 100 columns; rows are sorted, unique, and say what no default
    would.
    """
    lines = path.read_text("ascii").splitlines()
    assert [line for line in lines if not ROW.fullmatch(line) or len(line) > 100] == []
    rows = parse_rows(lines)
    names = [row.name for row in rows]
    assert names == sorted(set(names))
    defaults = {Support.UNSUPPORTED, Support.UNDECLARED}
    assert [row.name for row in rows if row.support in defaults and not row.note] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_ignored_rows_say_why(library: str) -> None:
    """A call that succeeds without effect has a note that says why that is right."""
    silent = [r.name for r in read_rows(library) if r.support is Support.IGNORED and not r.note]
    assert silent == []


def test_names_without_a_row_get_a_default() -> None:
    """What the list says of a call decides whether it may answer with an error."""
    rows = {row.name: row.support for row in read_rows("cudart")}
    assert read_symbols("cudart", 13)["cudaChooseDevice"]
    assert rows["cudaChooseDevice"] is Support.UNSUPPORTED
    assert not read_symbols("cudart", 13)["__cudaInitModule"]
    assert rows["__cudaInitModule"] is Support.UNDECLARED


def test_row_without_a_symbol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table may not have what the vendor's library does not export."""
    monkeypatch.setattr(interception_tables, "read_symbols", lambda *_: {"cudaMalloc": True})
    with pytest.raises(ValueError, match=r"cudart\.def.*does not export .*cudaStreamQuery"):
        whole_table("cudart", 13)


def test_every_symbol_has_one_library() -> None:
    """No two libraries export the same name: the first one preloaded would take both's calls."""
    names = [row.name for library in LIBRARIES for row in read_rows(library)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("library", "soname", "node"), VENDORS)
def test_exports_are_the_vendors_symbols(library: str, soname: str, node: str) -> None:
    """The built library exports the vendor's symbols and no others, under its version node."""
    assert exported(shim_directory() / soname) == dict.fromkeys(RECORDED[soname], node)


@pytest.mark.parametrize("vendor", read_vendors(12), ids=lambda vendor: str(vendor.name))
def test_exports_of_cuda_12_are_the_vendors_and_those_of_13(vendor: Vendor) -> None:
    """A name that CUDA 12 does not have is in nobody's way."""
    names = recorded(12)[vendor.soname] | read_symbols(vendor.name, 13).keys()
    expected = dict.fromkeys(names, vendor.version_node)
    assert exported(shim_directory(12) / vendor.soname) == expected


@pytest.mark.parametrize("cuda", CUDA_MAJORS)
def test_a_set_is_complete(cuda: int) -> None:
    """It has a library for every SONAME, the core, what counts, and what links to the driver."""
    files = {path.name for path in shim_directory(cuda).iterdir()}
    assert files == {CORE, COUNTING, "libcuda.so", *recorded(cuda)}


def test_core_exports_nothing_of_the_cpp_library() -> None:
    """Preloaded first, it would give the traced program pieces of another C++ runtime."""
    names = exported(shim_directory() / CORE)
    assert "ph_attach" in names
    # What PyTorch's allocators tell is heard in values/extents.cc, its seeds in values/entropy.cc,
    # its tensors in other memory in values/blobs.cc.
    heard = "N3c1027report|N3c106detail25getNonDeterministicRandom|N2at11TensorMaker11make_tensor"
    foreign = [name for name in names if re.match(rf"_Z(?!NK?2ph|{heard})", name)]
    assert foreign == []


def test_compiled_tables_are_the_definitions() -> None:
    """What the libraries say about themselves is what the tables say."""
    compiled = {table.library: list(table.rows) for table in read_tables(shim_directory())}
    assert compiled == {library: read_rows(library) for library in LIBRARIES}


def test_coverage_page_is_current() -> None:
    """docs/coverage.md is what the compiled tables print."""
    tables, uses = read_tables(shim_directory()), coverage.read_torch_uses()
    page = coverage.markdown(tables, uses, coverage.gaps_beyond())
    assert (ROOT / "docs" / "coverage.md").read_text("ascii") == page, (
        "run: phantora coverage --markdown > docs/coverage.md"
    )


@pytest.mark.parametrize("release", coverage.RELEASES)
def test_recorded_uses_of_torch_have_rows(release: str) -> None:
    """What torch was recorded to call is in the table of the library it calls."""
    uses = coverage.read_torch_uses(release)
    tables = coverage.read_tables_for(uses)
    rows = {(table.soname, row.name) for table in tables for row in table.rows}
    assert [use for use in uses if (use.soname, use.name) not in rows] == []
    assert {use.how for use in uses} == coverage.REACHES.keys()


@pytest.mark.torch
def test_imports_of_installed_torch_have_rows() -> None:
    """Every CUDA symbol that the installed torch imports is in a table of ours for its CUDA."""
    torch = inspect_interpreter(sys.executable).torch
    assert torch is not None
    tables = read_tables(shim_directory(torch.cuda_major))
    ours = {row.name for table in tables for row in table.rows}
    imported: set[str] = set()
    for library in (torch.directory / "lib").glob("*.so"):
        imported.update(run_nm(library, "--undefined-only"))
    # No name of CUDA ends as those of LAPACK do.
    cuda = re.compile(r"(__cuda|__nvrtc|cu|nccl|nvml|nvrtc|nvJitLink)[A-Z]?\w*[^_]")
    foreign = {name for name in imported if name.startswith(NOT_OURS)}
    assert {name for name in imported - foreign if cuda.fullmatch(name)} - ours == set()
