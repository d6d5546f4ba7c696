"""What the shim declares of the vendors' libraries agrees with the vendors' own headers.

Those headers are no requirement of the build; where the environment has the wheels that contain
them, the bodies are compiled against them (a wrong prototype does not compile) and our enumerators,
macros and sizes are compared one by one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
ENUMERATOR = re.compile(r"\b([A-Z][A-Z0-9_a-z]+) = ")
STRUCTURE = re.compile(r"^typedef struct \{.*?\} (\w+);", re.DOTALL | re.MULTILINE)
ENUM = re.compile(r"^typedef enum \{(.*?)\} (\w+);", re.DOTALL | re.MULTILINE)
# Records of CUPTI, whose fields have the vendor's names; those for padding the vendor has unnamed.
RECORD = re.compile(r"^typedef struct \{([^}]*)\} (CUpti_Activity\w+);", re.MULTILINE)
FIELD = re.compile(r"\b(\w+);$", re.MULTILINE)
MACRO = re.compile(r"^#define (\w+) \S", re.MULTILINE)


@dataclass(frozen=True)
class Library:
    """One library whose header the build does not have."""

    name: str
    header: str

    @property
    def types(self) -> Path:
        return CSRC / "shim" / self.name / f"{self.name}_types.h"


LIBRARIES = [
    Library("cublas", "cublas_api.h"),
    Library("cublasLt", "cublasLt.h"),
    Library("cudnn", "cudnn_graph.h"),
    Library("cufft", "cufftXt.h"),
    Library("cupti", "cupti.h"),
    Library("cusolver", "cusolverDn.h"),
    Library("cusparse", "cusparse.h"),
    Library("nvml", "nvml.h"),
    Library("nvrtc", "nvrtc.h"),
]
NAMES = [library.name for library in LIBRARIES]


def include_directories() -> list[Path]:
    """Of every NVIDIA wheel in this environment, and of PHANTORA_VENDOR_SITE if that is set."""
    sites = [Path(sysconfig.get_path("purelib"))]
    if "PHANTORA_VENDOR_SITE" in os.environ:
        sites.append(Path(os.environ["PHANTORA_VENDOR_SITE"]))
    return [path for site in sites for path in sorted(site.glob("nvidia/*/include"))]


def require(library: Library) -> list[Path]:
    """The include path, with the vendor's header on it; else the test is skipped."""
    directories = include_directories()
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    if not any((directory / library.header).exists() for directory in directories):
        pytest.skip(f"no wheel in this environment has {library.header}")
    if not any((directory / "crt").is_dir() for directory in directories):
        pytest.skip("no wheel in this environment has crt/host_defines.h (nvidia-cuda-crt)")
    return directories


def compile_source(source: Path, directories: list[Path], *options: str) -> str:
    """What g++ says; nothing if all is well."""
    command = ["g++", "-std=c++20", "-fsyntax-only", "-w", f"-I{CSRC}"]
    command += [f"-isystem{directory}" for directory in directories]
    done = subprocess.run(
        [*command, *options, str(source)], capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""


def comparisons(types: str) -> list[str]:
    """One assertion per fact of the header: the vendor's and ours must agree."""
    own = types.split("#else", 1)[1]
    lines = [
        f"static_assert(static_cast<long>(::{name}) == static_cast<long>(own::{name}));"
        for body, _ in ENUM.findall(own)
        for name in ENUMERATOR.findall(body)
    ]
    lines += [
        f"static_assert(offsetof(::{name}, {field}) == offsetof(own::{name}, {field}));"
        for body, name in RECORD.findall(own)
        for field in FIELD.findall(body)
    ]
    names = [name for _, name in ENUM.findall(own)] + STRUCTURE.findall(own)
    lines += [f"static_assert(sizeof(::{name}) == sizeof(own::{name}));" for name in names]
    lines += [f"static_assert(vendor_{name} == ({name}));" for name in MACRO.findall(own)]
    return lines


@pytest.mark.parametrize("library", LIBRARIES, ids=NAMES)
def test_facts(library: Library, tmp_path: Path) -> None:
    """Enumerators, sizes and macros that we declare have the vendor's values."""
    directories = require(library)
    types = library.types.read_text("ascii")
    own = types.split("#else", 1)[1].split("#endif  // PH_VENDOR_HEADERS")[0]
    macros = MACRO.findall(own)
    source = tmp_path / "facts.cc"
    source.write_text(
        "\n".join(
            [
                "#include <cstddef>",
                "#include <cstdint>",
                "#define PH_VENDOR_HEADERS",
                f'#include "{library.types.relative_to(CSRC)}"',
                *(f"constexpr long vendor_{name} = static_cast<long>({name});" for name in macros),
                *(f"#undef {name}" for name in macros),
                f"namespace own {{\n{own}\n}}",
                *comparisons(types),
            ]
        )
    )
    assert compile_source(source, directories) == ""


def bodies() -> list[tuple[Library, Path]]:
    return [
        (library, source)
        for library in LIBRARIES
        for source in sorted((CSRC / "shim" / library.name).glob("*.cc"))
    ]


@pytest.mark.parametrize(
    ("library", "source"), bodies(), ids=lambda value: getattr(value, "name", "")
)
def test_bodies(library: Library, source: Path) -> None:
    """Every body compiles against the vendor's declaration of the same function."""
    directories = require(library)
    table = f'-DPH_TABLE="shim/api/{library.name}.def"'
    names = [f'-DPH_LIBRARY="{library.name}"', '-DPH_SONAME="any"', "-DPH_VENDOR_HEADERS"]
    assert compile_source(source, directories, table, *names) == ""
