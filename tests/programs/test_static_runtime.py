"""The CUDA runtime linked statically reaches the driver by private tables, past our runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from program_runs import HERE, compile_program
from test_programs import cuda_headers


def test_static_runtime_is_named(tmp_path: Path) -> None:
    """The run stops at once, and the message says which file is to be built otherwise."""
    headers = cuda_headers()
    runtime = headers.parent / "lib" / "libcudart_static.a"
    if not runtime.exists():
        pytest.skip("no libcudart_static.a: pip install nvidia-cuda-runtime")
    binary = tmp_path / "devices"
    compile_program(HERE / "static_runtime" / "devices.c", binary, headers, [runtime])
    command = [
        sys.executable,
        "-m",
        "phantora_py",
        "run",
        "--quiet",
        "--ranks",
        "1",
        "--",
        str(binary),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "cuGetExportTable" in done.stderr
    assert f"{binary}, which links the CUDA runtime statically" in " ".join(done.stderr.split())
    assert "--cudart=shared" in done.stderr
