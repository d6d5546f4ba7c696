"""`phantora profile` against an executor that needs no GPU."""

from __future__ import annotations

import json
import queue
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from caches import product

from phantora_py.cli import main
from phantora_py.profile.suite import suite
from sim_server.cluster import load_cluster
from sim_server.errors import UsageError
from sim_server.gpu import load_gpu
from sim_server.kernels import CachedTimer, MeasuringTimer, Tier
from sim_server.processes import executor as executor_module
from sim_server.processes.executor import Executor, Refused
from sim_server.settings import Settings
from sim_server.timing_cache import Failure, Measurement, TimingCache
from sim_server.timings import model_timer, open_measuring_timer

FAKE = [sys.executable, str(Path(__file__).parent / "fake_executor.py")]
MODELS = model_timer(Settings(1, 1, 1, load_cluster("h100"), load_gpu("h100")))


def test_an_executor_measures() -> None:
    """Its environment and its samples arrive, with clocks, temperature and the origin we gave."""
    with Executor(FAKE, "a test") as executor:
        assert executor.environment.gpu == load_gpu("h100").name
        found = executor.measure(product(64))
    assert found.warm_ns == (2.0 * MODELS.time(product(64)).duration_ns,) * 5
    assert (found.origin, found.signature) == ("a test", product(64))
    assert (found.sm_khz, found.memory_khz, found.temperature_c, found.outliers) == (1, 2, 40, 0)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("die", "died of it, with status -6"),
        ("hang", "no answer within 0.5 s"),
        ("lie", "an answer that is none"),
        ("short", "2 warm samples of at least 5"),
        ("print", 'an answer that is none: "a library\'s remark"'),
    ],
)
def test_a_signature_that_breaks_it_costs_a_restart(fault: str, words: str) -> None:
    """It is refused, and what comes after it is measured."""
    limit_s = 0.5 if fault == "hang" else 20.0
    with Executor([*FAKE, f'{fault}="m": 13,'], "a test", limit_s) as executor:
        with pytest.raises(Refused, match=re.escape(words)):
            executor.measure(product(13))
        assert executor.restarts == 1
        assert executor.measure(product(64)).signature == product(64)


def test_one_that_dies_unasked_is_started_again() -> None:
    """What is measured next is not taken for the cause."""
    with Executor(FAKE, "a test") as executor:
        executor._process.kill()
        executor._process.wait()
        assert executor.measure(product(64)).signature == product(64)
        assert executor.restarts == 1


def test_what_broke_it_is_not_tried_again() -> None:
    """Not in the next run either; what it only refuses is."""
    kernel = {
        **{"kind": "kernel", "name": "k", "grid": [1, 1, 1], "block": [32, 1, 1]},
        **{"shared_bytes": 0, "scalars": []},
    }
    kept: list[Measurement | Failure] = []
    with Executor([*FAKE, 'die="m": 13,'], "a test") as executor:
        for run in range(2):
            failures = [one for one in kept if isinstance(one, Failure)]
            cached = CachedTimer(MODELS, [], executor.environment)
            timer = MeasuringTimer(cached, executor, lambda _, row: kept.append(row), failures)
            timings = [timer.time(one) for one in (product(13), product(64), kernel)]
            assert [one.tier for one in timings[:2]] == [Tier.MODELLED, Tier.MEASURED]
            refused = [row["reason"] for row in timer.to_dict()["refused"]]
            assert refused[1] == "a kernel by name"
            assert refused[0].startswith("not tried again since 2") == (run == 1)
        assert executor.restarts == 1
    assert [one.failure for one in kept if isinstance(one, Failure)] == [
        "the executor died of it, with status -6"
    ]


def measured_by_a_run(cache: Path, limit_s: float, *faults: str) -> bool:
    """Whether a run with this limit has a measurement of one product."""
    settings = Settings(
        *(1, 1, 1, load_cluster("h100"), load_gpu("h100")),
        cache={"path": str(cache), "cuda": "13.2"},
        executor={"command": [*FAKE, *faults], "origin": "a run", "limit_s": limit_s},
    )
    with open_measuring_timer(settings, lambda: None) as (timer, _):
        return timer.time(product(13)).tier is Tier.MEASURED


def measured_by_profile(cache: Path, limit_s: float, *faults: str) -> bool:
    """Likewise `phantora profile`, of a suite of that product."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("phantora_py.cli.profile.suite", lambda: [product(13)])
        words = ["--cache", str(cache), "--limit", str(limit_s), "--suite"]
        return main(["profile", *words, "--executor", shlex.join([*FAKE, *faults])]) == 0


@pytest.mark.parametrize("measured", [measured_by_a_run, measured_by_profile])
def test_what_ran_out_of_time_is_tried_again_with_more_of_it(
    measured: Callable[..., bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not with as much or less; what died is not tried again however long it may take."""
    late, dead = tmp_path / "late", tmp_path / "dead"
    assert not measured(late, 0.5, "hang=.")
    for limit_s in (0.5, 0.25):
        assert not measured(late, limit_s)
    assert main(["cache", "ls", str(late)]) == 0
    assert "1 signatures are not measured again" in capsys.readouterr().out
    assert measured(late, 60.0)
    assert main(["cache", "ls", str(late)]) == 0
    assert "not measured again" not in capsys.readouterr().out
    assert not measured(dead, 20.0, "die=.")
    assert not measured(dead, 60.0)


class SlowLines:
    """A queue every line of which takes 4 s, by a clock that nothing else moves."""

    now_s = 0

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._left_s = 4
        self.put = self._lines.put

    def get(self, timeout: float) -> str | None:
        assert timeout >= 1
        SlowLines.now_s += 1
        self._left_s -= 1
        if self._left_s > 0:
            raise queue.Empty
        self._left_s = 4
        return self._lines.get(timeout=60.0)


def test_one_that_waits_for_the_gpu_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limit begins anew whenever it says so: three times here, and then it measures."""
    monkeypatch.setattr(
        executor_module, "queue", SimpleNamespace(SimpleQueue=SlowLines, Empty=queue.Empty)
    )
    monkeypatch.setattr(executor_module, "time", SimpleNamespace(monotonic=lambda: SlowLines.now_s))
    with Executor([*FAKE, 'wait="m": 13,'], "a test", 5.0) as executor:
        before_s = SlowLines.now_s
        assert executor.measure(product(13)).signature == product(13)
        assert SlowLines.now_s - before_s == 4 * 4
        assert executor.restarts == 0


def test_an_executor_that_does_not_come_back_is_done_without(tmp_path: Path) -> None:
    """Whatever is asked then is refused at once, and nothing is raised that would end a run."""
    command = [*FAKE, 'die="m": 13,', f"once={tmp_path / 'started'}"]
    with Executor(command, "a test") as executor:
        with pytest.raises(Refused, match="died of it"):
            executor.measure(product(13))
        for size in (64, 65):
            with pytest.raises(Refused, match=r"could not be started again.*lost the device"):
                executor.measure(product(size))


def test_an_executor_that_always_fails_is_given_up() -> None:
    """Restarts cost time; with nothing measured between five of them there is no sixth."""
    with Executor([*FAKE, "die=."], "a test") as executor:
        for size in range(1, 8):
            with pytest.raises(Refused) as refusal:
                executor.measure(product(size))
    assert "failed 5 times in a row" in str(refusal.value)
    assert executor.restarts == 5


def test_whoever_waits_is_told() -> None:
    """Somebody may have to know that this is no stall."""
    told: list[None] = []
    with Executor(FAKE, "a test", tell=lambda: told.append(None)) as executor:
        before = len(told)
        executor.measure(product(64))
    assert len(told) > before > 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([*FAKE, "no-gpu"], "cannot work here: there is no GPU"),
        ([sys.executable, "-c", ""], "did not start"),
    ],
)
def test_a_machine_without_a_gpu_is_told(command: list[str], words: str) -> None:
    """Before anything is measured."""
    with pytest.raises(UsageError, match=words), Executor(command, "a test"):
        pass


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


def test_what_was_measured_is_told_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One object: where it was measured, what was, and what was refused, with the reason."""
    monkeypatch.setattr("phantora_py.cli.profile.suite", lambda: [product(13)])
    words = ["profile", "--suite", "--json", "--cache", str(tmp_path / "cache")]
    for measured in (1, 0):
        assert main([*words, "--executor", shlex.join(FAKE)]) == 0
        told = json.loads(capsys.readouterr().out)
        assert set(told.pop("environment")) == {"gpu", "driver", "cuda", "libraries"}
        counts = {"measured": measured, "known": 1 - measured}
        assert told == {**counts, "restarts": 0, "refused": []}


def test_signatures_of_the_suite_are_of_their_kind() -> None:
    """The models know all of them, products as fitted."""
    for signature in suite():
        timing = MODELS.time(signature)
        assert timing.kernel_class in ("gemm", "attention")
        if timing.kernel_class == "gemm":
            assert timing.tier is Tier.MODELLED


def test_what_to_measure_has_to_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither runs nor the suite nor a command is an error, and no cache is made."""
    assert main(["profile", "--cache", str(tmp_path / "c")]) == 2
    assert "needs data files of runs, --suite, or a command" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_what_uses_the_hosts_memory_is_not_measured() -> None:
    """The executor would give it the GPU's."""
    with Executor(FAKE, "a test") as executor:
        with pytest.raises(Refused, match="memory of the host"):
            executor.measure(product(64) | {"host_bytes": 1024})
        assert executor.restarts == 0
