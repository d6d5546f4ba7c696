"""The command that runs the programs on a real GPU, as far as it goes without one."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest
import run_real
from program_runs import CSRC, PROGRAMS, compile_program, find_cuda_headers
from stand_in_agent import write_settings

from phantora_py.launch.libraries import preload_list, shim_directory
from sim_server.gpu import load_gpu

NO_GPU = """
const char* cudaGetErrorName(int code) { return code == 100 ? "cudaErrorNoDevice" : "?"; }
const char* cudaGetErrorString(int code) { return code == 100 ? "no CUDA-capable device" : "?"; }
int cudaGetDeviceCount(int* count) { return *count = 0, 100; }
"""
DIFFERENT = """/* covers: cudaMalloc */
#include <cuda_runtime_api.h>
#include "program.h"
int main(void) {
  EXPECT(cudaMalloc(NULL, 1), cudaSuccess);
  EXPECT(cudaGetDevice(NULL), cudaErrorInvalidDevice);
  return differences;
}
"""
CRASH = """/* covers: cudaMalloc */
#include <cuda_runtime_api.h>
#include "program.h"
static int read_at(const int* place) { return *place; }
int main(void) {
  const int* volatile nowhere = NULL;
  CHECK(differences == 0);
  EXPECT(read_at(nowhere), 0);
}
"""


@pytest.fixture
def headers() -> Path:
    """The folder of the CUDA headers; skips the test where there is none."""
    found = find_cuda_headers(str(path) for path in _packages())
    if found is None:
        pytest.skip("no CUDA headers: pip install nvidia-cuda-runtime nvidia-cuda-crt")
    return found


@pytest.fixture
def stand_in(headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run_real.Vendor:
    """Our own libraries in the vendor's place, in processes that drive no rank's GPU."""
    write_settings(tmp_path, 1, {**load_gpu("h100").shim_keys(), "gpu.count": "8"})
    monkeypatch.setenv("PHANTORA_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("PHANTORA_RANK", raising=False)
    return run_real.Vendor(headers, tuple(preload_list(shim_directory())), gpus=1)


def _packages() -> list[Path]:
    site = Path(sysconfig.get_path("purelib"))
    return [site / "nvidia"]


def test_says_that_there_is_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a GPU the command ends with 2 and what the runtime said."""
    include, library = tmp_path / "nvidia" / "cu13" / "include", tmp_path / "nvidia/cu13/lib"
    (include / "crt").mkdir(parents=True)
    (include / "cuda_runtime_api.h").touch()
    library.mkdir()
    (tmp_path / "runtime.c").write_text(NO_GPU)
    command = ["gcc", "-shared", "-fPIC", str(tmp_path / "runtime.c"), "-o"]
    subprocess.run([*command, str(library / "libcudart.so.13")], check=True)
    assert run_real.main(["--site", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "run_real: no GPU: cudaGetDeviceCount says cudaErrorNoDevice (100): "
        "no CUDA-capable device\n"
    )


def test_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the vendor's packages the command ends with 2 and what to install."""
    assert run_real.main(["--site", str(tmp_path)]) == 2
    assert "no CUDA headers" in capsys.readouterr().err


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_compiles_for_the_vendor(source: Path, headers: Path, tmp_path: Path) -> None:
    """Without the parts that only our model promises, the program is whole too."""
    compile_program(source, tmp_path / "program", headers, preload_list(shim_directory()))


def test_reports_a_line_per_program(
    stand_in: run_real.Vendor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs that passed, differ, cannot run here, or crash; of these the call."""
    different = tmp_path / "different.c"
    different.write_text(DIFFERENT)
    folder = CSRC.parent / "tests" / "programs"
    names = ("cudart_events.c", "nccl_pair.c", "cudnn_attention.c")
    sources = [*(folder / name for name in names), different]
    crash = tmp_path / "crash.c"
    crash.write_text(CRASH)
    sources.append(crash)
    assert not run_real.report(sources, stand_in)
    assert capsys.readouterr().out.splitlines() == [
        "pass  cudart_events",
        "skip  nccl_pair: needs 2 GPUs",
        "skip  cudnn_attention: graphs are described as far as our library reads them",
        "FAIL  different",
        f"      {different}:5: cudaMalloc(NULL, 1) gives 1, not 0",
        f"      {different}:6: cudaGetDevice(NULL) gives 1, not 101",
        "FAIL  crash",
        f"      {crash}:8: read_at(nowhere) ends the program",
        "      ended by signal 11",
        "2 of 5 programs failed on 1 GPUs",
    ]
