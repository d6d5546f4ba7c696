"""`phantora doctor -- COMMAND`: what a program's libraries may call and we do not model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from phantora_py.cli import main
from phantora_py.coverage import TORCH, read_tables_for, read_torch_uses, torch_gaps
from phantora_py.coverage.forecast import Gap, Package, forecast
from phantora_py.launch.command import Form, Program, understand
from phantora_py.launch.interpreter import Interpreter

CALLS = "int cudaMalloc(void); int cudaImportExternalMemory(void);"
USE = "int use(void) { return cudaMalloc() + cudaImportExternalMemory(); }"
# What a library has in it that was linked with the static runtime, and a name for dlsym.
RUNTIME = 'const char kept[] = "\\0cuGetExportTable\\0libcuda.so.1\\0__cudaRegisterFatBinary\\0";'
LOOKED_UP = 'const char name[] = "\\0cuMulticastCreate\\0nvmlNoSuchCall\\0";'


def compile_library(path: Path, source: str, *options: str) -> None:
    """A shared library that wants whatever it calls from others."""
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(path), *options]
    subprocess.run(command, input=source, text=True, check=True)


def program(directory: Path, text: str) -> Program:
    """A script of an interpreter that has no packages."""
    script = directory / "train.py"
    script.write_text(text)
    interpreter = Interpreter(sys.executable, sys.prefix, "3.11.7", None)
    return Program((sys.executable, str(script)), Form.SCRIPT, str(script), (), interpreter)


def only_package(directory: Path, text: str = "import extension\n") -> Package:
    (package,) = forecast(program(directory, text))
    return package


def test_imported_calls(tmp_path: Path) -> None:
    """A call that is not modelled is named, one that is modelled is not."""
    compile_library(tmp_path / "extension.so", CALLS + USE)
    package = only_package(tmp_path)
    assert package.named
    assert package.gaps == {Gap("cudart", "cudaImportExternalMemory", "imported")}
    assert package.troubles == []


def test_calls_looked_up_by_name(tmp_path: Path) -> None:
    """Names of the driver's and NVML's calls count where a library keeps them as strings."""
    compile_library(tmp_path / "extension.so", LOOKED_UP)
    assert only_package(tmp_path).gaps == {Gap("cuda", "cuMulticastCreate", "looked-up")}


def test_the_runtime_inside(tmp_path: Path) -> None:
    """A library that was linked with the static runtime is named as what stops the run."""
    compile_library(tmp_path / "extension.so", RUNTIME)
    (trouble,) = only_package(tmp_path).troubles
    assert trouble.startswith("extension.so has the CUDA runtime inside (linked statically). ")


def test_another_cuda_major(tmp_path: Path) -> None:
    """So is one that wants the runtime of a CUDA that the ranks do not have."""
    compile_library(tmp_path / "other.so", "", "-Wl,-soname,libcudart.so.12")
    needs = ["-Wl,--no-as-needed", "-x", "none", str(tmp_path / "other.so")]
    compile_library(tmp_path / "extension.so", "", *needs)
    (trouble,) = only_package(tmp_path).troubles
    assert trouble.startswith("extension.so needs libcudart.so.12, of CUDA 12; the ranks have ")


def test_what_a_program_names(tmp_path: Path) -> None:
    """Modules beside the script are followed; what nobody imports is found and not named."""
    package = tmp_path / "extension"
    package.mkdir()
    (package / "__init__.py").touch()
    compile_library(package / "_C.so", CALLS + USE)
    assert not only_package(tmp_path, "import json\n").named
    (tmp_path / "helper.py").write_text("def load():\n    from extension import _C\n")
    assert only_package(tmp_path, "import helper\n").named


def test_files_that_are_no_libraries(tmp_path: Path) -> None:
    """Text with such a name, and a library that was cut off, are nobody's calls."""
    (tmp_path / "text.so").write_text("INPUT(libm.so.6)")
    compile_library(tmp_path / "extension.so", CALLS + USE)
    whole = (tmp_path / "extension.so").read_bytes()
    (tmp_path / "extension.so").write_bytes(whole[: len(whole) // 2])
    assert forecast(program(tmp_path, "import extension\n")) == []


@pytest.mark.torch
def test_torch_itself(tmp_path: Path) -> None:
    """What is found in the installed torch is what was recorded of that release."""
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    found = understand([sys.executable, str(script)], {}).program
    assert found.torch is not None
    if ".".join(map(str, found.torch.release)) != TORCH:
        pytest.skip(f"the calls of torch {found.torch.version} are not compared")
    (torch,) = [package for package in forecast(found) if package.name == "torch"]
    uses = read_torch_uses(TORCH)
    recorded = torch_gaps(read_tables_for(uses), uses)
    assert torch.gaps == {
        Gap(library, use.name, use.how) for library, gap in recorded.items() for use in gap
    }


@pytest.mark.torch
@pytest.mark.parametrize(("text", "code"), [("import extension\n", 3), ("import json\n", 0)])
def test_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int
) -> None:
    """It tells whether the program names a package that stops the run."""
    compile_library(tmp_path / "extension.so", RUNTIME + CALLS + USE)
    script = tmp_path / "train.py"
    script.write_text(text)
    assert main(["doctor", "--json", "--", sys.executable, str(script)]) == code
    packages = {one["name"]: one for one in json.loads(capsys.readouterr().out)["packages"]}
    assert packages["extension"]["named"] is (code == 3)
    gap = {"library": "cudart", "symbol": "cudaImportExternalMemory", "how": "imported"}
    assert gap in packages["extension"]["gaps"]
    assert main(["doctor", "--", sys.executable, str(script)]) == code
    text = " ".join(capsys.readouterr().out.split())
    assert "extension.so has the CUDA runtime inside" in text
    assert "Not known before a run:" in text


def test_a_command_that_cannot_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is that of `phantora run`."""
    assert main(["doctor", "--", "no-such-program"]) == 2
    assert "There is no program no-such-program in PATH" in capsys.readouterr().err
    assert main(["doctor", "--python", sys.executable, "--", "true"]) == 2
    assert "a command names its own" in capsys.readouterr().err
