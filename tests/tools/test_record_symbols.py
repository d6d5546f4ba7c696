"""What is recorded of PyTorch's libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_symbols import looked_up


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["cuMemCreate", "a cuMemCreate", "nvmlInit_v2", "malloc"], {"cuMemCreate", "nvmlInit_v2"}),
        (["cuMemCreate", "cuGetExportTable"], set()),
    ],
)
def test_names_that_are_looked_up(tmp_path: Path, names: list[str], found: set[str]) -> None:
    """Those of a CUDA runtime within a library are not PyTorch's (libtorch_nvshmem.so of 2.9)."""
    library = tmp_path / "library.so"
    library.write_bytes(b"\0" + b"".join(name.encode() + b"\0" for name in names))
    assert looked_up(library) == found
