"""What runs were given."""

from __future__ import annotations

from pathlib import Path

from compared_runs import write_run

from phantora_py.compare.inputs import Difference, differences, inputs_of, options_of, program_of
from phantora_py.data import RunData
from phantora_py.launch.environment import recorded_environment


def test_options_are_found_in_a_command() -> None:
    """With their values, in either form; what has none, negative numbers and `key=value` too."""
    words = "python -u train.py --tp 8 --lr=-0.5 --bias -1 --flag --x a --x b run model.dim=4"
    assert options_of(words.split()) == {
        **{"": "python run", "-u": "train.py", "--tp": "8", "--lr": "-0.5", "--bias": "-1"},
        **{"--flag": "", "--x": "a b", "model.dim": "4"},
    }


def test_the_program_of_a_command() -> None:
    """A script wherever it lies, a module, or what there is."""
    assert program_of(["torchrun", "--nproc-per-node", "8", "dir/train.py", "--x"]) == "train.py"
    assert program_of(["python", "-m", "pkg.train"]) == "pkg.train"
    assert program_of(["/bin/sh", "-c", "x"]) == "sh"


def test_what_was_added_left_out_and_changed() -> None:
    """Profiles of different GPUs have different groups and are not compared."""
    first = {"command": {"--tp": "8", "--seed": "1"}, "GPU h100": {"sm": "132"}}
    this = {"command": {"--tp": "4", "--bf16": ""}, "GPU a100": {"sm": "108"}}
    assert differences(first, this) == [
        Difference("command", "--bf16", None, ""),
        Difference("command", "--seed", "1", None),
        Difference("command", "--tp", "8", "4"),
    ]


def test_the_data_file_keeps_no_more_of_the_environment_than_explains() -> None:
    """Variables of CUDA, NCCL, PyTorch and OpenMP; nobody's keys."""
    inherited = {"TORCH_X": "1", "NCCL_ALGO": "Tree", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/"}
    assert recorded_environment(inherited) == {"NCCL_ALGO": "Tree", "TORCH_X": "1"}


def test_kernels_that_were_supposed_to_be_faster(tmp_path: Path) -> None:
    """Are an input of a resimulation."""
    made = {"what_if": {"environment": {}, "host_time": None, "kernels": {"flash*": 0.8}}}
    paths = (
        write_run(tmp_path / "a.phr", []),
        write_run(tmp_path / "b.phr", [], run={"resimulation": made}),
    )
    first, this = (inputs_of(RunData(path)) for path in paths)
    assert differences(first, this) == [Difference("supposed", "kernels flash*", None, "x 0.8")]
