"""Which launcher a script calls, by its text."""

from pathlib import Path

import pytest

from phantora_py.launchers.recognise import called_launcher
from phantora_py.launchers.scripts import script_launcher


@pytest.mark.parametrize(
    ("text", "launcher"),
    [
        ("torchrun --nproc-per-node 8 x.py", "torchrun"),
        ("set -e\n  A=1 torchrun \\\n --nproc-per-node 8 x.py", "torchrun"),
        ("/opt/env/bin/torchrun x.py", "torchrun"),
        ("${ENV}/bin/torchrun x.py", "torchrun"),
        ('LAUNCHER="torchrun --nnodes 2"', "torchrun"),
        ("cd a && python -m torch.distributed.run x.py", "torch.distributed.run"),
        ("$PYTHON -m torch.distributed.launch x.py", "torch.distributed.launch"),
        ("accelerate launch x.py", "accelerate launch"),
        ("train:\n\t@deepspeed x.py", "deepspeed"),
        ("if true; then srun -N2 python x.py; fi", "srun"),
        ("mpirun -np 8 python x.py", "mpirun"),
        ("# torchrun x.py\npython x.py", None),
        ("pip install deepspeed accelerate torch", None),
        ("echo torchrun x.py", None),
        ("cd examples/accelerate\npython accelerate.py", None),
        ("accelerate config", None),
        ("srun=1\nmy-torchrun x.py --deepspeed ds.json", None),
    ],
)
def test_lines(text: str, launcher: str | None) -> None:
    """What is called counts; comments, what is installed and names of files do not."""
    assert called_launcher(text) == launcher


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's words are looked at, its script, its makefile, and scripts that these call."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner.sh").write_text("torchrun x.py\n")
    outer = tmp_path / "outer.sh"
    outer.write_text('#!/bin/bash\nbash "$(dirname "$0")"/inner.sh\n')
    outer.chmod(0o755)
    (tmp_path / "plain.sh").write_text("python x.py\n")
    (tmp_path / "x.py").write_text('"""Usage: torchrun x.py"""\n')
    for words in (["bash", "inner.sh"], ["bash", "-e", "outer.sh"], ["./outer.sh", "a"]):
        assert script_launcher(words) == "torchrun", words
    assert script_launcher(["env", "A=1", "torchrun", "x.py"]) == "torchrun"
    assert script_launcher(["bash", "-c", "exec torchrun x.py"]) == "torchrun"
    for words in (["bash", "plain.sh"], ["nohup", "x.py"], ["make"]):
        assert script_launcher(words) is None, words
    (tmp_path / "Makefile").write_text("train:\n\tbash outer.sh\n")
    assert script_launcher(["make", "train"]) == "torchrun"
