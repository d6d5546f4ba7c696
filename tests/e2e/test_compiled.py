"""torch.compile: Inductor and Triton compile for the simulated GPU, and their kernels are timed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from first_difference import differences
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

H100_BYTES_PER_NS = 3352.0  # by its data sheet


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What these tests have compiled."""
    return tmp_path_factory.mktemp("compiled")


def train(
    phantora: Phantora, cache: Path, wrapper: str, ranks: int = 2, options: Sequence[str] = ()
) -> Run:
    command: list[str | Path] = [PROGRAMS / "compiled.py", wrapper]
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"}
    run = phantora.run(["--ranks", str(ranks), *options], command, environment)
    assert run.exit_code == 0, run.errors
    return run


def check_followed(plain: Run, told: Run) -> None:
    """With --modules the history is the same, and modules have their phases."""
    same = plain.summary["digest"] == told.summary["digest"]
    assert same, "\n".join(map(str, differences(plain.path, told.path)))
    paths = {(one["phase"], one["path"]) for one in told.summary["modules"]["scopes"]}
    assert {("forward", "Block"), ("backward", "Block"), ("optimizer", "SGD")} <= paths


def triton_kernels(run: Run) -> Counter[str]:
    """How many kernels of Triton there were, by tier."""
    rows = [row for row in run.data.timings if row["name"].startswith("triton_")]
    return Counter(row["tier"] for row in rows)


def test_compiled_under_ddp(phantora: Phantora, cache: Path) -> None:
    """It compiles, ends, and is the same to the nanosecond once the caches are warm, whether its
    modules are followed or not. What compiles with cold caches times kernels in its first step.
    """
    cold = train(phantora, cache, "ddp")
    assert cold.output.count("last step") == 2
    warm = train(phantora, cache, "ddp")
    check_followed(warm, train(phantora, cache, "ddp", options=["--modules"]))
    assert triton_kernels(warm)["modelled"] > 2
    # Who prints first has no label.
    steps = re.findall(r"rank \d: last step \d+ us", cold.output)
    assert sorted(steps) == sorted(re.findall(r"rank \d: last step \d+ us", warm.output))


def test_compiled_under_fsdp(phantora: Phantora, cache: Path) -> None:
    """Four ranks compile into one cache, whatever their device, and take the same time."""
    cold = train(phantora, cache, "fsdp", ranks=4)
    assert len(set(re.findall(r"last step (\d+) us", cold.output))) == 1
    assert cold.output.count("last step") == 4
    assert [folder.name for folder in (cache / "triton").iterdir()] == ["0"]
    assert triton_kernels(cold)["modelled"] > 2
    plain = train(phantora, cache, "fsdp", ranks=4)
    check_followed(plain, train(phantora, cache, "fsdp", ranks=4, options=["--modules"]))


def test_graphs_are_not_tuned(phantora: Phantora, cache: Path) -> None:
    """Nothing is compiled for a choice that no model makes, and the report says so."""
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"}
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "tuned.py"], environment)
    assert run.exit_code == 0, run.errors
    assert "tried 0 configurations" in run.output
    assert "AUTOTUNE" not in run.output + run.errors
    assert [one["what"] for one in run.summary["trust"]["caveats"]] == ["tuning"]
    assert not any(row["tier"] == "assumed" for row in run.data.timings)


def test_kernels_that_loop(phantora: Phantora, cache: Path) -> None:
    """They move what their loops do, whether Triton has just compiled them or PyTorch kept them."""
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"}
    for _ in ("cold", "warm"):
        run = phantora.run(["--ranks", "1"], [PROGRAMS / "compiled_loss.py"], environment)
        assert run.exit_code == 0, run.errors
        rows = [row for row in run.data.timings if row["name"].startswith("triton_red_")]
        assert {row["tier"] for row in rows} == {"modelled"}
        # The logits are read in both passes, and their gradients written.
        logits_ns = 1024 * 32_000 * 2 / H100_BYTES_PER_NS
        passes = {
            "prepare_softmax": 1,
            "log_softmax_backward": 2,
        }
        for name, times in passes.items():
            lasted_ns = [row["duration_ns"] for row in rows if name in row["name"]]
            assert lasted_ns
            assert all(times < one / logits_ns < 1.6 * times for one in lasted_ns)
