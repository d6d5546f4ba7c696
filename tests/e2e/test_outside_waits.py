"""Ranks that wait for each other outside the GPU wake at the right time, whatever the machine does.

Rank 1 acts half a virtual second late, rank 0 waits for it, rank 2 runs ahead or computes for real.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from free_ports import free_port
from phantora_runs import EXAMPLES, PROGRAMS, Phantora

REPEATS = 3
# What an act costs, and what was read of clocks (csrc/shim/libc/outside.cc, virtual_clock.cc).
ACT_NS, READ_NS = 1000, 100
LATE_NS = 500_000_000

Readings = list[dict[str, int]]
WAITING, ACTING, OTHER = range(3)


def repeat(phantora: Phantora, program: str, directory: Path) -> Readings:
    """What the ranks read of their clocks, by scenario: at every run the same but for how far a
    reading happens to lead its host clock, and one history.
    """
    seen, histories = [], set()
    for number in range(REPEATS):
        place = directory / str(number)
        place.mkdir()
        for name in ("pipe", "other-pipe"):
            os.mkfifo(place / name)
        for name in ("file", "order", "queue"):
            (place / name).touch()
        run = phantora.run(["--ranks", "3"], [PROGRAMS / program, place, str(free_port())])
        assert run.exit_code == 0, run.errors
        assert run.summary["trust"]["by_machine"] == []
        seen.append([json.loads((place / f"rank-{rank}.json").read_text()) for rank in range(3)])
        histories.add(((place / "order").read_text(), run.summary["digest"]))
    assert len(histories) == 1
    first: Readings = seen[0]
    for readings in seen[1:]:
        for rank, again in zip(first, readings, strict=True):
            assert again == pytest.approx(rank, abs=READ_NS)
    return first


def check_met(readings: Readings, name: str, acts: int) -> None:
    """The rank that waited goes on when the other had acted, not before and not later."""
    acted_ns, woke_ns = readings[ACTING][name], readings[WAITING][name]
    assert acted_ns == pytest.approx(LATE_NS, abs=50 * ACT_NS), name
    assert -READ_NS <= woke_ns - acted_ns <= acts * ACT_NS + READ_NS, name


def test_a_rank_wakes_when_another_acts(phantora: Phantora, tmp_path: Path) -> None:
    """Pipes, locks and sockets; what was to happen first in virtual time does so."""
    readings = repeat(phantora, "outside_waits.py", tmp_path)
    met = [name for name in readings[ACTING] if name not in {"first come", "queue"}]
    assert len(met) == 8
    for name in met:
        # A connection takes place a tenth of a second late.
        late_ns = LATE_NS // 5 * name.endswith("socket")
        for rank in (WAITING, ACTING):
            readings[rank][name] -= late_ns
        check_met(readings, name, acts=4)
    for name, order in (("order", "0\n1\n"), ("queue", "1\n0\n2\n")):
        assert [(tmp_path / str(run) / name).read_text() for run in range(REPEATS)] == (
            [order] * REPEATS
        )


@pytest.mark.torch
def test_a_rank_wakes_when_another_sets_a_key(phantora: Phantora, tmp_path: Path) -> None:
    """Stores of both kinds, and collectives of gloo."""
    readings = repeat(phantora, "store_waits.py", tmp_path)
    for name in readings[ACTING]:
        if name.endswith("order"):
            assert [rank[name] for rank in readings] == [3, 2, 1], name
        else:
            check_met(readings, name, acts=4)
    for name in ("barrier", "all_reduce", "large all_reduce", "broadcast"):
        assert readings[OTHER][name] == pytest.approx(LATE_NS, abs=50 * ACT_NS), name


KEYS_BY_THREAD = """
import os, sys, threading, time, torch.distributed as dist
start_ns = time.perf_counter_ns()
store = dist.FileStore(sys.argv[1], 2)
for number in range(1, 41):
    begin_ns = start_ns + 10 * 10**9 * number
    time.sleep((begin_ns - time.perf_counter_ns()) / 1e9)
    if os.environ["RANK"] == "0":
        thread = threading.Thread(target=store.get, args=(f"key {number}",))
        thread.start()
        thread.join()
        print("waited", time.perf_counter_ns() - begin_ns)
    else:
        time.sleep(0.5)
        store.set(f"key {number}", "1")
"""


@pytest.mark.torch
def test_a_thread_that_polls_a_file_has_a_key_in_time(phantora: Phantora, tmp_path: Path) -> None:
    """Also if it sleeps between two looks when the key is set."""
    program = tmp_path / "program.py"
    program.write_text(KEYS_BY_THREAD)
    run = phantora.run(["--ranks", "2"], [program, tmp_path / "store"])
    assert run.exit_code == 0, run.errors
    assert run.summary["trust"]["by_machine"] == []
    waits_ns = [int(line.split()[-1]) for line in run.output.splitlines() if "waited" in line]
    assert waits_ns == [pytest.approx(LATE_NS, abs=50 * ACT_NS)] * 40


QUIET_GLOO = """
import pathlib, subprocess, torch.distributed as dist
dist.init_process_group("gloo")
def woken():
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[2]) for task in tasks}
def real_s():
    return float(pathlib.Path("/proc/uptime").read_text().split()[0])
dist.barrier()
before, start_s = woken(), real_s()
subprocess.run(["sleep", "2"])
after, took_s = woken(), real_s() - start_s
print("woken", max(after[task] - before.get(task, 0) for task in after) / took_s)
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_gloo_s_loop_rarely_wakes_while_nothing_comes(phantora: Phantora, tmp_path: Path) -> None:
    """Nor does another thread. By itself the loop wakes 100 times a second, and on a busy machine a
    thread that is awake gets the processor more than once.
    """
    program = tmp_path / "program.py"
    program.write_text(QUIET_GLOO)
    run = phantora.run(["--ranks", "2"], [program])
    assert run.exit_code == 0, run.errors
    woken = [float(line.split()[-1]) for line in run.output.splitlines() if "woken" in line]
    assert woken
    assert max(woken) < 40


@pytest.mark.torch
def test_programs_that_mix_gloo_and_nccl_have_one_history(phantora: Phantora) -> None:
    """Every collective of both, one after the other."""
    command = [EXAMPLES / "check_collectives.py"]
    runs = [phantora.run(["--ranks", "4"], command) for _ in range(2)]
    assert [run.exit_code for run in runs] == [0, 0], runs[0].errors
    assert len({run.summary["digest"] for run in runs}) == 1


@pytest.mark.torch
def test_a_helper_that_acts_is_not_held_up_by_one_that_spins(phantora: Phantora) -> None:
    """Its rank cannot be found still meanwhile, and has issued something at the same time."""
    runs = [phantora.run(["--ranks", "2"], [PROGRAMS / "gloo_after_gpu.py"]) for _ in range(2)]
    assert [run.exit_code for run in runs] == [0, 0], runs[0].errors
    assert len({run.summary["digest"] for run in runs}) == 1


@pytest.mark.torch
def test_a_helper_that_waits_for_the_device_is_waited_for(phantora: Phantora) -> None:
    """Where no rank asks for anything itself: each goes on when its own device is done."""
    runs = [phantora.run(["--ranks", "2"], [PROGRAMS / "helpers_that_wait.py"]) for _ in range(2)]
    assert [run.exit_code for run in runs] == [0, 0], runs[0].errors
    assert len({run.summary["digest"] for run in runs}) == 1
    for run in runs:
        lines = [json.loads(line) for line in re.findall(r"{.*}", run.output)]
        told = {rank: one for line in lines for rank, one in line.items()}
        took = {rank: one["took"] for rank, one in told.items()}
        assert took["1"]["main thread"] > 1.9 * took["0"]["main thread"]
        for ways in took.values():
            assert len(ways) == 3
            for way in ways.values():
                assert way == pytest.approx(ways["main thread"], abs=50 * ACT_NS)
        for one in told.values():
            assert 0 <= one["heard of first"] <= 50 * ACT_NS


@pytest.mark.torch
@pytest.mark.parametrize("first", [0, 5])
def test_ranks_may_come_late_to_the_store(phantora: Phantora, tmp_path: Path, first: int) -> None:
    """Those that are there poll for the others, which takes no virtual time and holds nobody up.

    Rank 0 has the store when the last has come, whether it was there before or itself is late.
    """
    ranks = 6
    program = str(PROGRAMS / "late_to_the_store.py")
    command = [program, str(tmp_path), str(free_port()), str(first)]
    run = phantora.run(["--ranks", str(ranks)], command)
    assert run.exit_code == 0, run.errors
    told = [json.loads(line) for line in re.findall(r"{.*}", run.output)]
    locked_s = {one["rank"]: one["locked"] for one in told}
    met_s = {one["rank"]: one["met"] for one in told}
    assert sorted(locked_s.values())[0] == pytest.approx(2, abs=0.001)
    assert max(locked_s.values()) < 2 + ranks * 0.05
    assert met_s[0] == pytest.approx(max(locked_s.values()), abs=0.001)
    for rank in range(1, ranks):
        assert met_s[rank] == pytest.approx(max(locked_s[0], locked_s[rank]), abs=0.001)


@pytest.mark.torch
def test_a_thread_waits_outside_while_another_one_waits_for_the_gpu(phantora: Phantora) -> None:
    """Their rank holds nobody up: the rank for which the first waits goes on, and ends both."""
    run = phantora.run(["--ranks", "2"], [PROGRAMS / "two_drivers.py"])
    assert run.exit_code == 0, run.errors
    assert run.output.count("reduced\n") == 2
    assert "told 1.0\n" in run.output


@pytest.mark.torch
def test_a_batch_that_takes_longer_than_a_minute_takes_no_time(phantora: Phantora) -> None:
    """The time-out with which a loader waits for it looks again when its worker has worked, also
    where that took longer than the wait is left to itself.
    """
    run = phantora.run(["--gpus", "1"], [PROGRAMS / "slow_batches.py", "65"])
    assert run.exit_code == 0, run.errors
    (waited_s,) = re.findall(r"waited (\S+) s", run.output)
    assert float(waited_s) < 0.001
    assert run.summary["trust"]["by_machine"] == []
