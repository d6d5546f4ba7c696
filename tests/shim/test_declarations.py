"""Which calls can be answered with an error: the lists say what the vendors' headers say."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pytest
from declarations import HEADERS, read_statuses
from interception_tables import read_symbols, symbols_path

# Of the wheels that the lists were recorded from (csrc/shim/symbols).
WHEELS = {
    "cublas": "nvidia-cublas",
    "cublasLt": "nvidia-cublas",
    "cuda": "nvidia-cuda-runtime",
    "cudart": "nvidia-cuda-runtime",
    "cudnn": "nvidia-cudnn-cu13",
    "cufft": "nvidia-cufft",
    "cupti": "nvidia-cuda-cupti",
    "cusolver": "nvidia-cusolver",
    "cusparse": "nvidia-cusparse",
    "cusparseLt": "nvidia-cusparselt-cu13",
    "nccl": "nvidia-nccl-cu13",
    "nvJitLink": "nvidia-nvjitlink",
    "nvml": "nvidia-nvml-dev",
    "nvrtc": "nvidia-cuda-nvrtc",
}


@pytest.mark.parametrize("library", HEADERS)
def test_lists_agree_with_the_headers(library: str) -> None:
    """A name is undeclared unless a header says that it returns a status."""
    recorded_from = symbols_path(library, 13).read_text().partition("\n")[0].split()[-1]
    try:
        wheel = importlib.metadata.distribution(WHEELS[library])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{WHEELS[library]} is not installed")
    if wheel.version != recorded_from or shutil.which("gcc") is None:
        pytest.skip(f"the list is that of {WHEELS[library]} {recorded_from}, and needs gcc")
    site = Path(str(wheel.locate_file("")))
    statuses = read_statuses(library, sorted(site.glob("nvidia/*/include")))
    if statuses is None:
        pytest.skip("other wheels with headers are not installed")
    symbols = read_symbols(library, 13)
    assert symbols == {name: name in statuses for name in symbols}
