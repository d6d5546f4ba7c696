"""`phantora run` with stock PyTorch: forked and executed ranks are the same ranks."""

import json
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phantora_py.data import RunData

pytestmark = pytest.mark.torch

LIMIT_S = 300.0

TRAIN = """
import os
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.Linear(64, 64).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for step in range(3):
        model(torch.ones(8, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""


def phantora(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `phantora run`; its data file is run.phr."""
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr", *arguments]
    return subprocess.run(
        words, cwd=directory, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def read_json(directory: Path, member: str) -> Any:
    """A member of the data file."""
    with zipfile.ZipFile(directory / "run.phr") as archive:
        return json.loads(archive.read(member))


def train(directory: Path, *arguments: str) -> None:
    """Runs the training script on two ranks."""
    (directory / "train.py").write_text(TRAIN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = phantora(directory, *arguments, "--", *torchrun, "train.py")
    assert done.returncode == 0, done.stderr


def test_isolation_does_not_change_the_history(tmp_path: Path) -> None:
    """Isolated or not: one digest."""
    digests = set()
    for isolation in ("auto", "process"):
        train(tmp_path, "--isolation", isolation)
        digests.add(read_json(tmp_path, "run.json")["digest"])
    assert len(digests) == 1


def test_executed_ranks_do_the_same_work(tmp_path: Path) -> None:
    """Their clock also runs while they import, so times differ; kernels and operations do not."""
    work = []
    for way in ((), ("--no-zygote",)):
        train(tmp_path, *way)
        data = RunData(tmp_path / "run.phr")
        kernels = sorted((one["name"], one["count"]) for one in data.timings)
        work.append((kernels, sorted((one["kind"], one["bytes"]) for one in data.operations)))
    assert work[0] == work[1]


def test_a_traceback_holds_the_program_only(tmp_path: Path) -> None:
    """A rank that raises says so as it does elsewhere; the run ends with exit code 4."""
    (tmp_path / "train.py").write_text("import torch\n\nraise ValueError('bad luck')\n")
    done = phantora(tmp_path, "--", sys.executable, "train.py")
    assert done.returncode == 4
    traceback = (
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path}/train.py", line 3, in <module>\n'
        "    raise ValueError('bad luck')\n"
        "ValueError: bad luck\n"
    )
    assert done.stderr == (
        f"{traceback}phantora: a rank failed: Rank 0 ended with exit code 1. It was the first to "
        "fail; the others were stopped. What it said is above.\n"
    )
    run = read_json(tmp_path, "run.json")
    assert run["message"].endswith(f"Its last lines:\n{textwrap.indent(traceback, '  ')}".rstrip())
    assert (run["exit_code"], run["failed_rank"]) == (4, 0)


# Modules of the environment, by what they do when they are imported.
LIBRARY = {
    "busy": "from threading import *\nThread(target=Event().wait, daemon=True).start()",
    "role": "import os\nRANK = os.environ.get('RANK')",
    "device": "import torch\nNAME = torch.cuda.get_device_name()",
    "size": "import os\nWHERE, SIZE = os.getpid(), os.environ['WORLD_SIZE']",
    "available": "import os, torch\nWHERE, CUDA = os.getpid(), torch.cuda.is_available()",
}
IMPORTER = """
import os
import available, busy, device, role, size
import torch
assert available.CUDA and device.NAME and role.RANK == os.environ["RANK"]
assert size.SIZE == "2"
assert os.getpid() not in (available.WHERE, size.WHERE)
torch.ones(1, device="cuda")
"""


def test_imports_that_are_no_rank_s_are_left_to_the_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be forked or depends on the rank is imported by every rank, and the report says
    why; whether there is a GPU, and what all ranks are told, may be asked before.
    """
    library = tmp_path / "library"
    library.mkdir()
    for name, text in LIBRARY.items():
        (library / f"{name}.py").write_text(text + "\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    (tmp_path / "train.py").write_text(IMPORTER)
    done = phantora(
        tmp_path, "--ranks", "2", "--gpus-per-node", "2", "--", sys.executable, "train.py"
    )
    assert done.returncode == 0, done.stderr
    assert read_json(tmp_path, "run.json")["notes"] == [
        "every rank imports for itself: busy: it starts threads when it is imported; "
        "device: it uses the GPU when it is imported; role: it reads RANK when it is imported"
    ]


def test_files_left_open_are_written_out(tmp_path: Path) -> None:
    """A forked rank ends without taking modules down, but loses nothing."""
    (tmp_path / "train.py").write_text("log = open('log', 'w')\nlog.write('the last line')\n")
    done = phantora(tmp_path, "--", sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text() == "the last line"


def test_a_gpu_that_runs_the_code_of_an_earlier_one(tmp_path: Path) -> None:
    """PyTorch has code for 8.6 and none for 8.9. CUB, which sorts for it, asks for which GPU its
    code is, and knows no other.
    """
    (tmp_path / "l40s.toml").write_text('base = "a100"\ngpu = "l40s"\ngpu_links = "pcie"\n')
    (tmp_path / "sort.py").write_text(
        "import torch\n"
        "table = torch.nn.Embedding(1000, 8, device='cuda')\n"
        "table(torch.randint(1000, (8192,), device='cuda')).sum().backward()\n"
        "values = torch.rand(100_000, device='cuda')\n"
        "for call in (torch.sort, torch.unique, torch.nonzero, torch.median):\n"
        "    call(values)\n"
        "torch.cuda.synchronize()\n"
    )
    cluster = ("--cluster", "l40s.toml", "--ranks", "1")
    done = phantora(tmp_path, *cluster, "--", sys.executable, "sort.py")
    assert done.returncode == 0, done.stderr


def test_a_rack_of_72_gpus_is_a_node(tmp_path: Path) -> None:
    """A program can use them all; PyTorch's own count ends at 64 while CUDA has not started."""
    (tmp_path / "see.py").write_text(
        "import torch\n"
        "moved = torch.arange(1000, device='cuda:0').to('cuda:71')\n"
        "assert moved.tolist() == list(range(1000))\n"
    )
    rack = ("--cluster", "gb200", "--gpus", "72")
    done = phantora(tmp_path, *rack, "--", sys.executable, "see.py")
    assert done.returncode == 0, done.stderr
