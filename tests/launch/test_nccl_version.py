"""The version of NCCL that a program is simulated with."""

from __future__ import annotations

from pathlib import Path

import pytest

from phantora_py.launch.interpreter import Torch, nccl_version, shim_keys
from sim_server.collectives.version import NEWEST

TORCH_WITH_CUDA_12 = "2.6.0+cu124", "12.4"


def install(folder: Path, *names: str) -> Torch:
    """A torch in a folder of packages that has these, as far as their metadata goes."""
    for name in names:
        (folder / f"{name}.dist-info").mkdir()
    version, cuda = TORCH_WITH_CUDA_12
    return Torch(version, cuda, folder / "torch")


@pytest.mark.parametrize("wheel", ["nvidia_nccl_cu12-2.21.5", "nvidia_nccl_cu12-2.21.5.post1"])
def test_the_installed_wheel_tells(tmp_path: Path, wheel: str) -> None:
    """What is installed is loaded, whatever torch asks for; another CUDA's is not."""
    torch = install(tmp_path, "nvidia_nccl_cu13-2.30.7", wheel, "torch-2.6.0+cu124")
    metadata = tmp_path / "torch-2.6.0+cu124.dist-info" / "METADATA"
    metadata.write_text("Requires-Dist: nvidia-nccl-cu12==2.27.3\n", encoding="utf-8")
    assert nccl_version(torch) == 22105
    assert shim_keys(torch)["nccl.version"] == "22105"


@pytest.mark.parametrize("form", ["nvidia-nccl-cu12==2.21.5; extra", "nvidia-nccl-cu12 (==2.21.5)"])
def test_without_a_wheel_torch_tells_what_it_asks_for(tmp_path: Path, form: str) -> None:
    """Both forms of its metadata are read."""
    torch = install(tmp_path, "torch-2.6.0")
    text = f"Name: torch\nRequires-Dist: numpy\nRequires-Dist: {form}\n"
    (tmp_path / "torch-2.6.0.dist-info" / "METADATA").write_text(text, encoding="utf-8")
    assert nccl_version(torch) == 22105


def test_the_newest_is_what_is_declared() -> None:
    """The server and our NCCL each have a number of their own."""
    header = Path(__file__).parents[2] / "csrc" / "shim" / "nccl" / "nccl_types.h"
    assert f"#define NCCL_VERSION_CODE {NEWEST}\n" in header.read_text(encoding="utf-8")


def test_what_nobody_tells_is_the_newest(tmp_path: Path) -> None:
    """A program without torch, and a torch that was built with NCCL inside."""
    assert nccl_version(None) == NEWEST
    assert nccl_version(install(tmp_path, "torch-2.6.0")) == NEWEST
