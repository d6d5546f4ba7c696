"""What a run takes of the machine: weighed, told before it is too much, and the end of the run."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from phantora_py.agent.memory import Elsewhere, MemoryWatch, margin_bytes
from phantora_py.machine import host_memory
from phantora_py.machine.process_tree import tree

GIB = 1 << 30


class Machine:
    """Ranks of a weight that a test says, on a machine that has what it says."""

    def __init__(self, left_gib: float) -> None:
        self.left_bytes = int(left_gib * GIB)
        self.rank_bytes = 1 * GIB

    def available(self) -> int:
        return self.left_bytes

    def weigh(self, pids: Iterable[int]) -> int:
        return sum(self.rank_bytes for pid in pids if pid in _RANKS.values())


# Of two ranks; no process has so high a number.
_RANKS = {0: 1 << 23, 1: (1 << 23) + 1}


def watch(machine: Machine, limit_gib: float | None = None) -> MemoryWatch:
    """Of two ranks."""
    limit_bytes = None if limit_gib is None else int(limit_gib * GIB)
    return MemoryWatch(limit_bytes, _RANKS, machine.available, machine.weigh)


def test_ranks_are_weighed_in_their_iterations() -> None:
    """Once the program iterates, and not before; the most is kept."""
    machine = Machine(left_gib=100)
    memory = watch(machine)
    memory.look()
    assert memory.to_dict()["pss_bytes"] == {}
    memory.iterates()
    memory.look()
    machine.rank_bytes = GIB // 2
    memory.look()
    assert memory.to_dict() == {
        "pss_bytes": {"0": GIB, "1": GIB},
        "total_bytes": 2 * GIB,
        "limit_bytes": None,
    }
    assert (memory.over, memory.take_warning()) == ("", "")


def test_the_start_does_not_count_for_ranks() -> None:
    """A model that is made on the CPU is gone later; the run as a whole has taken it."""
    machine = Machine(left_gib=100)
    memory = watch(machine)
    memory._weigh_at_s = 0.0
    machine.rank_bytes = 3 * GIB
    memory.look()
    assert memory.to_dict()["pss_bytes"] == {"0": 3 * GIB, "1": 3 * GIB}
    machine.rank_bytes = GIB
    memory.iterates()
    memory.look()
    assert memory.to_dict()["pss_bytes"] == {"0": GIB, "1": GIB}
    assert memory.to_dict()["total_bytes"] == 6 * GIB


def test_a_machine_that_runs_out() -> None:
    """First a warning with how many ranks would fit, then the end, each with the figures."""
    machine = Machine(left_gib=100)
    memory = watch(machine)
    margin = margin_bytes(machine.left_bytes)
    machine.left_bytes = margin + GIB // 8
    memory.look()
    assert memory.over == ""
    assert memory.take_warning() == (
        "memory runs short: 2 ranks take 2.00 GiB, rank 0 most with 1.00 GiB; about 2 of this size "
        "would fit."
    )
    memory.look()
    assert memory.take_warning() == ""
    machine.left_bytes = margin
    memory.look()
    assert memory.over.startswith("Only ")
    assert "container; the run was stopped before the kernel would" in memory.over


def test_a_limit_of_the_user() -> None:
    """It is what the ranks take together that counts; others may have taken what is missing."""
    machine = Machine(left_gib=100)
    memory = watch(machine, limit_gib=4)
    machine.left_bytes -= 3 * GIB  # somebody else
    memory.look()
    assert memory.over == ""
    machine.rank_bytes = 2 * GIB
    machine.left_bytes -= 2 * GIB
    memory.look()
    assert memory.over == (
        "The run takes 4.00 GiB of memory, and --memory-limit is 4.00 GiB: 2 ranks take 4.00 GiB, "
        "rank 0 most with 2.00 GiB; about 2 of this size would fit. Run fewer ranks, or a smaller "
        "program."
    )


def test_a_limit_of_several_hosts() -> None:
    """The sum counts, and each host is named."""
    machine = Machine(left_gib=100)
    far = Elsewhere({2: "far"}, {2: 0})
    memory = MemoryWatch(4 * GIB, _RANKS, machine.available, machine.weigh, elsewhere=far)
    memory.iterates()
    memory.look()
    far.taken_bytes[2] = GIB
    memory.look()
    assert (memory.over, memory.take_warning()) == ("", "")
    far.taken_bytes[2] = 2 * GIB
    memory.look()
    assert memory.over == (
        "The run takes 4.00 GiB of memory, and --memory-limit is 4.00 GiB: 2.00 GiB on this host, "
        "2.00 GiB on host far. Run fewer ranks, or a smaller program."
    )
    assert memory.to_dict()["total_bytes"] == 2 * GIB


def test_another_host_tells_what_it_takes() -> None:
    """It is weighed whenever that has changed by much, and holds no limit itself."""
    machine = Machine(left_gib=100)
    memory = MemoryWatch(None, _RANKS, machine.available, machine.weigh, told_bytes=4 * GIB)
    for left_gib, rank_gib in ((96.0, 2), (95.99, 2), (98.0, 1)):
        machine.left_bytes, machine.rank_bytes = int(left_gib * GIB), rank_gib * GIB
        memory.look()
        assert memory.total_bytes == 2 * rank_gib * GIB
    machine.left_bytes, machine.rank_bytes = 90 * GIB, 5 * GIB
    memory.look()
    assert memory.total_bytes == 10 * GIB
    assert memory.over == ""


def test_an_agent_below_us_is_another_host() -> None:
    """What it takes is not ours."""
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    try:
        seen: list[set[int]] = []

        def weigh(pids: Iterable[int]) -> int:
            seen.append(set(pids))
            return 0

        machine = Machine(left_gib=100)
        for processes in ((), (pid,)):
            far = Elsewhere({2: "far"}, {2: 0}, processes)
            MemoryWatch(None, {}, machine.available, weigh, elsewhere=far)
        assert seen[0] - seen[1] == {pid}
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_margin_leaves_a_small_machine_something() -> None:
    """A run may begin wherever it could before."""
    assert margin_bytes(1 << 20) == 1 << 18


def test_what_processes_share_counts_once() -> None:
    """The sum over processes that share their pages is about what one of them takes."""
    block = bytearray(os.urandom(64 << 20))
    ready, gate = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready[1], b"!")
        os.read(gate[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        assert pid in set(tree(os.getpid()))
        alone = host_memory.pss_bytes([os.getpid()])
        together = host_memory.pss_bytes([os.getpid(), pid])
    finally:
        os.write(gate[1], b"!")
        os.waitpid(pid, 0)
    assert len(block) / 2 < alone < together < 2 * alone + len(block) / 2


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """It counts like the machine's; file pages that can be dropped are available."""
    group = tmp_path / ("memory/pod" if version == 1 else "pod")
    group.mkdir(parents=True)
    names = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        if version == 1
        else ("memory.max", "memory.current", "inactive_file")
    )
    (group / names[0]).write_text("1000000\n")
    (group / names[1]).write_text("900000\n")
    (group / "memory.stat").write_text(f"anon 5\n{names[2]} 50000\n")
    own = tmp_path / "cgroup"
    own.write_text("4:memory:/pod/inner\n" if version == 1 else "0::/pod/inner\n")
    monkeypatch.setattr(host_memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(host_memory, "_OWN_GROUPS", own)
    host_memory._limited_groups.cache_clear()
    try:
        assert host_memory.available_bytes() == 150000
    finally:
        monkeypatch.undo()
        host_memory._limited_groups.cache_clear()
