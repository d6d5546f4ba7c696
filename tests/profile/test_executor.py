"""`phantora profile` against an executor that needs no GPU."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from caches import product

from phantora_py.cli import main
from phantora_py.profile.executor import Executor, Refused
from phantora_py.profile.suite import suite
from sim_server.errors import UsageError
from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer, Tier
from sim_server.timing_cache import TimingCache

FAKE = [sys.executable, str(Path(__file__).parent / "fake_executor.py")]
MODELS = KernelTimer(load_gpu("h100"))


def test_an_executor_measures() -> None:
    """Its environment and its samples arrive, with the origin that we gave."""
    with Executor(FAKE, "a test") as executor:
        assert executor.environment.gpu == load_gpu("h100").name
        found = executor.measure(product(64))
    assert found.warm_ns == (2.0 * MODELS.time(product(64)).duration_ns,) * 5
    assert (found.origin, found.signature) == ("a test", product(64))


def test_a_signature_that_kills_or_hangs_costs_a_restart() -> None:
    """It is refused, and what comes after it is measured."""
    with Executor(FAKE, "a test", answer_limit_s=20.0) as executor:
        with pytest.raises(Refused, match="died of it"):
            executor.measure(product(13))
        executor.measure(product(64))
    impatient = Executor(FAKE, "a test", answer_limit_s=0.5)
    with impatient as executor, pytest.raises(Refused, match="no answer within"):
        executor.measure(product(14))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([*FAKE, "no-gpu"], "cannot work here: there is no GPU"),
        ([sys.executable, "-c", ""], "did not start"),
    ],
)
def test_a_machine_without_a_gpu_is_told(command: list[str], words: str) -> None:
    """Before anything is measured."""
    with pytest.raises(UsageError, match=words):
        Executor(command, "a test")


def test_the_suite_fills_a_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is measured, once; a second time there is nothing to do."""
    cache = tmp_path / "cache"
    words = ["profile", "--suite", "--cache", str(cache), "--executor", shlex.join(FAKE)]
    assert main(words) == 0
    count = len(list(suite()))
    said = capsys.readouterr().out
    assert f"{count:,} measured, 0 known already, 0 refused" in said
    with TimingCache(cache) as opened:
        assert len(opened.entries()) == count > 500
    assert main(words) == 0
    assert f"0 measured, {count:,} known already, 0 refused" in capsys.readouterr().out


def test_signatures_of_the_suite_are_of_their_kind() -> None:
    """The models know all of them, products as fitted."""
    for signature in suite():
        timing = MODELS.time(signature)
        assert timing.kernel_class in ("gemm", "attention")
        if timing.kernel_class == "gemm":
            assert timing.tier is Tier.MODELLED


def test_what_to_measure_has_to_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither runs nor the suite is an error, and no cache is made."""
    assert main(["profile", "--cache", str(tmp_path / "c")]) == 2
    assert "needs data files of runs, or --suite" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
