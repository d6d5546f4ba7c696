"""`phantora run --modules`: which modules GPU time belongs to, at no virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from first_difference import differences
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "throughput.py"


@pytest.mark.parametrize("kinds", [("reentrant",), ("checkpoint",), ("ddp",)])
def test_modules_have_the_phases_that_they_go_by(
    phantora: Phantora, kinds: tuple[str, ...]
) -> None:
    """Each layer; and the history is the same as without."""
    plain = phantora.run(["--ranks", "1"], [PROGRAM, *kinds])
    told = phantora.run(["--ranks", "1", "--modules"], [PROGRAM, *kinds])
    assert told.exit_code == 0, told.errors
    assert plain.summary["digest"] == told.summary["digest"]
    assert plain.summary["modules"] is None
    found = told.summary["modules"]
    times_ns = {(one["phase"], one["path"]): one["gpu_ns"] for one in found["scopes"]}
    for layer in ("qkv", "up"):
        forward_ns = times_ns["forward", f"Model.blocks.0.{layer}"]
        # Of a product two, and no more: what is around it belongs to the block.
        backward_ns = times_ns["backward", f"Model.blocks.0.{layer}"]
        assert 1.5 * forward_ns < backward_ns < 3 * forward_ns
        again_ns = times_ns.get(("recomputation", f"Model.blocks.0.{layer}"), 0)
        assert again_ns == pytest.approx(0 if kinds == ("ddp",) else forward_ns, rel=0.01)
    assert ("recomputation", "Model.head") not in times_ns
    assert found["named_share"] > 0.85  # Copies take long beside so small a model.


def test_what_follows_modules_is_not_counted(phantora: Phantora) -> None:
    """It is none of the program's work: iterations take as long as without, but for what a process
    does once and has done already.
    """
    options = ["--ranks", "2", "--host-time", "counted"]
    command: list[str | Path] = [PROGRAMS / "compiled.py", "ddp", "eager"]
    plain, told = (phantora.run([*options, *more], command) for more in ([], ["--modules"]))
    assert told.exit_code == 0, told.errors
    assert told.summary["modules"]["scopes"]
    lasted_ns = [run.summary["iterations"]["per_iteration_ns"] for run in (plain, told)]
    assert lasted_ns[0][0] == pytest.approx(lasted_ns[1][0], abs=1_000)
    assert lasted_ns[0][1:] == lasted_ns[1][1:]
    assert len(lasted_ns[0]) > 1


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_no_history_sees_that_modules_are_followed(phantora: Phantora, wrapper: str) -> None:
    """Of replicated and sharded models; test_compiled.py has compiled ones."""
    command: list[str | Path] = [PROGRAMS / "compiled.py", wrapper, "eager"]
    plain = phantora.run(["--ranks", "2"], command)
    told = phantora.run(["--ranks", "2", "--modules"], command)
    assert told.exit_code == 0, told.errors
    same = plain.summary["digest"] == told.summary["digest"]
    assert same, "\n".join(map(str, differences(plain.path, told.path)))
    paths = {(one["phase"], one["path"]) for one in told.summary["modules"]["scopes"]}
    assert {("forward", "Block.up"), ("backward", "Block.up"), ("optimizer", "SGD")} <= paths


def test_no_graph_sees_that_modules_are_followed(phantora: Phantora, tmp_path: Path) -> None:
    """Nothing is put around what begins backward passes: torch.compile would trace that."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "caches")}
    command: list[str | Path] = [PROGRAMS / "compiled_steps.py"]
    options = ["--ranks", "1"]
    cold = phantora.run(options, command, caches)
    assert cold.exit_code == 0, cold.errors
    plain = phantora.run(options, command, caches)
    told = phantora.run([*options, "--modules"], command, caches)
    assert told.exit_code == 0, told.errors
    same = plain.summary["digest"] == told.summary["digest"]
    assert same, "\n".join(map(str, differences(plain.path, told.path)))


def test_communication_belongs_to_the_module_that_it_serves(phantora: Phantora) -> None:
    """Of a sharded model: what gathers the weights. PyTorch scatters the gradients of the outermost
    module after the backward pass has left all modules.
    """
    told = phantora.run(["--ranks", "2", "--modules"], [PROGRAMS / "compiled.py", "fsdp", "eager"])
    assert told.exit_code == 0, told.errors
    moved_ns = {
        (one["phase"], one["path"]): one["communication_ns"]
        for one in told.summary["modules"]["scopes"]
    }
    assert moved_ns["forward", "Block"] > 0
    assert moved_ns["backward", ""] > 0


def test_a_module_that_fails_is_left(phantora: Phantora) -> None:
    """What follows its exception is no longer its work; shared modules keep their first name."""
    told = phantora.run(["--ranks", "1", "--modules"], [PROGRAMS / "modules.py"])
    assert told.exit_code == 0, told.errors
    launches = {
        (one["phase"], one["path"]): one["launches"] for one in told.summary["modules"]["scopes"]
    }
    assert launches["forward", "Net.broken"] == pytest.approx(1)
    assert launches["forward", "Net"] == pytest.approx(1)
    assert launches["forward", "Net.shared"] == pytest.approx(2)
    assert not any("twin" in path for _, path in launches)
    assert launches["forward", ""] > 0  # the loss
    assert launches["backward", "Net.shared"] >= 2
    assert launches["optimizer", "SGD"] > 0
    assert launches["optimizer", "clip_grad_norm_"] > 0
    assert not any("unnamed" in path for _, path in launches)
