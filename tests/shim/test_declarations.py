"""Which calls can be answered with an error: the tables say what the vendors' headers say."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pytest
from declarations import HEADERS, mark, read_statuses, table_path

# Of the wheels that the tables were recorded from (tests/symbols).
WHEELS = {
    "cublas": "nvidia-cublas",
    "cublasLt": "nvidia-cublas",
    "cuda": "nvidia-cuda-runtime",
    "cudart": "nvidia-cuda-runtime",
    "cudnn": "nvidia-cudnn-cu13",
    "cufft": "nvidia-cufft",
    "cusolver": "nvidia-cusolver",
    "cusparse": "nvidia-cusparse",
    "cusparseLt": "nvidia-cusparselt-cu13",
    "nccl": "nvidia-nccl-cu13",
    "nvJitLink": "nvidia-nvjitlink",
    "nvml": "nvidia-nvml-dev",
    "nvrtc": "nvidia-cuda-nvrtc",
}
RECORDED = Path(__file__).parents[1] / "symbols" / "cuda13"


@pytest.mark.parametrize("library", HEADERS)
def test_tables_agree_with_the_headers(library: str) -> None:
    """A row that is not modelled is Unsupported if a header declares a status, else Undeclared."""
    recorded_from = (RECORDED / f"{library}.txt").read_text().partition("\n")[0].split()[-1]
    try:
        wheel = importlib.metadata.distribution(WHEELS[library])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{WHEELS[library]} is not installed")
    if wheel.version != recorded_from or shutil.which("gcc") is None:
        pytest.skip(f"the table is that of {WHEELS[library]} {recorded_from}, and needs gcc")
    site = Path(str(wheel.locate_file("")))
    statuses = read_statuses(library, sorted(site.glob("nvidia/*/include")))
    if statuses is None:
        pytest.skip("other wheels with headers are not installed")
    rows = table_path(library, 13).read_text().splitlines()
    assert rows == [mark(row, statuses) for row in rows]


def test_marks() -> None:
    """Rows that are modelled or ignored stay; a note stays."""
    statuses = {"cudaOne", "cudaTwo"}
    rows = {
        'API(cudaOne, Undeclared, "")': 'API(cudaOne, Unsupported, "")',
        'API(cudaTwo, Unsupported, "a hint")': 'API(cudaTwo, Unsupported, "a hint")',
        'API(cudaThree, Unsupported, "")': 'API(cudaThree, Undeclared, "")',
        'API(cudaFour, Ignored, "why")': 'API(cudaFour, Ignored, "why")',
    }
    assert [mark(row, statuses) for row in rows] == list(rows.values())
