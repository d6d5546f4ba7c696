"""Which checkpoints a rank maps; tests/e2e has whole runs."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not (Path(sysconfig.get_path("purelib")) / "torch/utils/serialization").exists(),
        reason="this PyTorch (before 2.7) hands out no kernels: no checkpoint is mapped",
    ),
]
FRESH = """
import sys, torch
from phantora_py.rank.checkpoints import _can_map
print(_can_map(torch, sys.argv[1], None, None))
"""
WRAPPED = """
import sys, torch
from phantora_py.rank.checkpoints import map_checkpoints
from phantora_py.rank.host_tensors import LARGE_BYTES

class Placed:
    def __init__(self): self.noted = []
    def note_mapped(self, storage): self.noted.append(storage.nbytes())

class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        raise NotImplementedError(function)

torch.save({"wrapped": Wrapper(torch.ones(3)), "large": torch.zeros(LARGE_BYTES // 4)}, sys.argv[1])
places = Placed()
map_checkpoints(torch, places)
for where in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, None):
    found = torch.load(sys.argv[1], map_location=where, weights_only=False)
    print(found["wrapped"].inner.tolist(), len(places.noted))
"""


def run(program: str, file: Path) -> str:
    words = [sys.executable, "-c", program, str(file)]
    done = subprocess.run(words, cwd=file.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_subclasses_that_wrap_tensors(tmp_path: Path) -> None:
    """PyTorch places them by what the program gave as `map_location`, which may be no function."""
    counts = range(1, 5)
    expected = "".join(f"[1.0, 1.0, 1.0] {count}\n" for count in counts)
    assert run(WRAPPED, tmp_path / "wrapped.pt") == expected


def test_a_process_that_has_saved_nothing(tmp_path: Path) -> None:
    """It finds that a file can be mapped: PyTorch imports its settings when it first saves."""
    import torch  # noqa: PLC0415

    file = tmp_path / "checkpoint.pt"
    torch.save({"weight": torch.ones(2)}, file)
    assert run(FRESH, file) == "True\n"
