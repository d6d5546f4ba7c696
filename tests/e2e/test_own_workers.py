"""Programs that start their own workers, each process that uses a GPU being a rank (--gpus)."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.summary import summarise, summary_lines

pytestmark = pytest.mark.torch

GRADIENTS = 4 * (64 * 64 + 64)
STEPS = 4


def started(phantora: Phantora, gpus: int, program: str, *arguments: str) -> Run:
    return phantora.run(["--gpus", str(gpus)], [PROGRAMS / program, *arguments])


def check_trained(run: Run, gpus: int) -> None:
    """Two ranks have reduced their gradients in each step; the program itself ran once."""
    assert run.exit_code == 0, run.errors
    assert run.output.count(f"{gpus} GPUs\n") == run.output.count("the program goes on\n") == 1
    reduced = Counter(one["bytes"] for one in run.data.operations if one["kind"] == "all_reduce")
    assert reduced[GRADIENTS] == STEPS
    assert run.data.run["ranks"] == gpus


@pytest.mark.parametrize("how", ["torch", "spawn", "fork"])
def test_workers_are_ranks(phantora: Phantora, how: str) -> None:
    """torch.multiprocessing.spawn and loops over Process, by either way to start one."""
    run = started(phantora, 2, "own_workers.py", how, "2")
    check_trained(run, 2)
    assert run.summary["iterations"]["count"] >= STEPS - 2
    assert run.summary["trust"]["calls"]["unsupported"] == 0
    assert how == "torch" or "[(0, 2.0), (1, 2.0)]\n[0, 0]" in run.output


def test_gpus_without_a_worker(phantora: Phantora) -> None:
    """A node may have more GPUs than the program uses: the others hold nobody up."""
    run = started(phantora, 4, "own_workers.py", "torch", "2")
    check_trained(run, 4)
    assert not re.search("rank [23] ", run.errors)
    assert "have not told" not in "\n".join(summary_lines(summarise(run.data)))


READER = """
import torch
weights = torch.randn(1 << 16, device="cuda")
for _ in range(3):
    weights.sum().item()
"""


def test_a_gpu_that_nobody_uses_is_no_rank_that_differs(phantora: Phantora, tmp_path: Path) -> None:
    """Values that the one process reads are not read elsewhere, because there is nobody."""
    program = tmp_path / "reader.py"
    program.write_text(READER)
    run = phantora.run(["--gpus", "2"], [program])
    assert run.exit_code == 0, run.errors
    trust = run.summary["trust"]
    (row,) = trust["unknown_reads"]
    assert (row["per_rank"], row["differs_between_ranks"]) == ([3, 0], False)
    assert 1 not in [one["rank"] for one in trust["by_machine"]]


def test_equal_runs(phantora: Phantora) -> None:
    """Workers begin whenever this machine gets to it; what is simulated is the same."""
    runs = [started(phantora, 2, "own_workers.py", "torch", "2") for _ in range(2)]
    assert runs[0].data.run["digest"] == runs[1].data.run["digest"]
    assert summary_lines(summarise(runs[0].data))[0].startswith("[bold]2 GPUs on 1 node of h100[/]")


def test_a_worker_that_fails(phantora: Phantora) -> None:
    """The program hears of it as it would, and its own message is shown."""
    run = started(phantora, 2, "own_workers.py", "torch", "2", "fail")
    assert run.exit_code == 4
    assert "ValueError: worker 1 fails" in run.errors
    assert "goes on" not in run.output


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_launcher_that_would_restart_its_workers(phantora: Phantora, restarts: int) -> None:
    """It says before that it cannot: the first failure ends the run."""
    run = started(phantora, 2, "elastic_workers.py", str(restarts))
    assert run.exit_code == 4
    assert run.output.split("\n").count("attempt 0") == 2
    assert "attempt 1" not in run.output
    note = f"max_restarts={restarts} of torch.distributed.elastic is ignored: a rank that fails"
    assert (note in run.errors) == (restarts > 0)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("alone", "8.0\nthe end"),
        ("forks", "child 0\nchild 0\nthe end"),
        ("nothing", "the end"),
        ("again", "4.0\nthe end"),
        ("chosen", "True\n4.0\nthe end"),
    ],
)
def test_other_users(phantora: Phantora, what: str, said: str) -> None:
    """One process with several GPUs, children by os.fork, nobody at all; processes one after the
    other on each GPU, and then the program itself; a program that has chosen a GPU that its worker
    uses.
    """
    run = started(phantora, 2, "gpu_users.py", what)
    assert (run.exit_code, said in run.output) == (0, True), run.errors


REFUSED = r"phantora: usage: process \d+ uses GPU 0, which another process of the program uses"


@pytest.mark.parametrize(
    ("what", "exit_code", "message"),
    [
        ("same", 2, REFUSED),
        ("joined", 2, REFUSED),
        ("killed", 4, "process 1 terminated with signal SIGKILL"),
    ],
)
def test_what_cannot_be(phantora: Phantora, what: str, exit_code: int, message: str) -> None:
    """A GPU that two processes use at once, whatever the program makes of the end of the second,
    and a worker that is killed, end the run.
    """
    run = started(phantora, 2, "gpu_users.py", what)
    assert (run.exit_code, bool(re.search(message, run.errors))) == (exit_code, True), run.errors
    assert "the end" not in run.output


def test_processes_after_each_other(phantora: Phantora, tmp_path: Path) -> None:
    """They are one rank: its time goes on, their steps are its iterations, lines are known."""
    program = tmp_path / "jobs.py"
    program.write_text(
        "import torch\nfrom torch import multiprocessing, nn\n"
        "def train(rank):\n"
        "    model = nn.Linear(64, 64).cuda()\n"
        "    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "    for _ in range(4):\n"
        "        model(torch.randn(8, 64, device='cuda')).sum().backward()\n"
        "        optimizer.step()\n"
        "    model.weight.sum().item()\n"
        "if __name__ == '__main__':\n"
        "    for _ in range(3):\n        multiprocessing.spawn(train, nprocs=1)\n"
    )
    runs = [phantora.run(["--gpus", "1"], [program]) for _ in range(2)]
    assert [run.exit_code for run in runs] == [0, 0], runs[0].errors
    assert runs[0].data.run["digest"] == runs[1].data.run["digest"]
    assert sum(name == "SGD#0" for *_, name in runs[0].data.markers) == 12
    reads = {one["site"] for one in runs[0].data.synthetic_reads}
    assert reads == {f"{program}:9 train"}


def test_clocks_go_on_where_a_process_becomes_a_rank(phantora: Phantora) -> None:
    """Until then they are this machine's; what it did before is seconds in the past."""
    run = started(phantora, 1, "own_clock.py")
    assert run.exit_code == 0, run.errors
    lasted_s = [float(word) for word in run.output.split()[1:4]]
    assert min(lasted_s) >= 0.3
    assert max(lasted_s) - min(lasted_s) < 0.001


def test_a_process_that_nobody_follows(phantora: Phantora) -> None:
    """The others wait for it, so that the run ends as a deadlock."""
    run = started(phantora, 2, "gpu_users.py", "waits")
    assert run.exit_code == 5, run.errors
    assert "deadlock: rank 0 waits" in run.errors


def test_a_gpu_that_two_processes_use(phantora: Phantora) -> None:
    """Each has it to itself, which the report says, and --strict refuses."""
    run = phantora.run(["--gpus", "2", "--strict"], [PROGRAMS / "gpu_users.py", "shared"])
    assert (run.exit_code, "--strict: ranks 0, 1 work on GPU 0" in run.errors) == (6, True)
    told = run.summary["trust"]["shared_gpus"]
    assert told == [{"node": 0, "device": 0, "ranks": [0, 1]}]
    assert any("shared GPU:" in line for line in summary_lines(summarise(run.data)))


def test_a_worker_of_a_rank_is_told(phantora: Phantora) -> None:
    """With --ranks a worker that uses a GPU is no rank: that is said, also in the report, and what
    to do; --strict refuses it.
    """
    run = phantora.run(["--ranks", "1", "--strict"], [PROGRAMS / "gpu_users.py", "workers"])
    assert "its work there is not simulated and takes no time" in run.errors
    assert "phantora run --gpus N" in run.errors
    assert run.exit_code == 6
    told = run.summary["trust"]["unsimulated"]
    assert [(one["rank"], one["processes"]) for one in told] == [(0, 1), (0, 1)]
    assert any(
        "2 processes that rank 0 started" in line for line in summary_lines(summarise(run.data))
    )


def test_a_launcher_that_nobody_recognises(phantora: Phantora, tmp_path: Path) -> None:
    """Its processes say by LOCAL_RANK which rank they are."""
    launcher = tmp_path / "start.py"
    launcher.write_text(
        "import sys\nfrom torch.distributed.run import main\n"
        "sys.exit(main(['--nproc-per-node', '2', *sys.argv[1:]]))\n"
    )
    run = phantora.run(["--gpus", "2"], [launcher, PROGRAMS / "started.py"])
    assert run.exit_code == 0, run.errors
    assert set(re.findall(r"rank \d of 2, \d on node0: 2.0", run.output)) == {
        "rank 0 of 2, 0 on node0: 2.0",
        "rank 1 of 2, 1 on node0: 2.0",
    }


@pytest.mark.parametrize(
    ("options", "command", "message"),
    [
        (["--gpus", "2", "--ranks", "2"], ["gpu_users.py"], "leave --ranks, --nodes and"),
        (["--gpus", "9"], ["gpu_users.py"], "do not fit"),
        (["--gpus", "0"], ["gpu_users.py"], "at least 1"),
    ],
)
def test_options_that_contradict(
    phantora: Phantora, options: list[str], command: list[str], message: str
) -> None:
    """--gpus is the whole layout."""
    run = phantora.run(options, [PROGRAMS / command[0], *command[1:]])
    assert (run.exit_code, message in run.errors) == (2, True), run.errors


POLLS = """
import os, sys, time, torch
torch.ones(9, device="cuda").sum().item()
start = time.monotonic()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.5)
print("slept", round(time.monotonic() - start), flush=True)
"""
STARTS = """
import subprocess, sys, time
how, flag = sys.argv[1:]
worker = subprocess.Popen([sys.executable, "polls.py", flag])
if how == "works":
    begin = time.process_time()
    while time.process_time() - begin < 4: pass
else:
    time.sleep(6)
open(flag, "w").close()
worker.wait()
"""
SHELL = """
python polls.py $1 &
sleep 6
touch $1
wait
"""
LAUNCHES = """
(sleep 6; touch $1) &
torchrun --nproc-per-node 2 polls.py $1
wait
"""


@pytest.mark.parametrize(
    ("options", "command", "longest_s"),
    [
        (["--gpus", "1"], ["bash", "shell.sh"], 6),
        ([], ["bash", "launches.sh"], 6),
        (["--gpus", "1"], ["python", "starts.py", "sleeps"], 6),
        (["--gpus", "1"], ["python", "starts.py", "works"], 0),
    ],
)
def test_a_file_that_a_process_makes_which_is_no_rank(
    phantora: Phantora, options: list[str], command: list[str], longest_s: int
) -> None:
    """A rank that polls for it sleeps no longer than that process does, and once if it works."""
    for name, text in [
        ("polls.py", POLLS),
        ("starts.py", STARTS),
        ("shell.sh", SHELL),
        ("launches.sh", LAUNCHES),
    ]:
        (phantora.directory / name).write_text(text)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = phantora.run(options, [], {"PATH": path}, whole=[*command, "flag"])
    assert run.exit_code == 0, run.errors
    slept = {int(one) for one in re.findall(r"slept (\d+)", run.output)}
    assert len(slept) == 1
    assert slept.pop() <= longest_s


@pytest.mark.frameworks
@pytest.mark.parametrize(("chosen", "ends"), [("not fails", 0), ("fails", 4)])
def test_a_suite_that_starts_its_processes(phantora: Phantora, chosen: str, ends: int) -> None:
    """PyTorch's MultiProcessTestCase under pytest: two processes a test, one test after another."""
    pytest.importorskip("expecttest", reason="expecttest is not installed: nox -s frameworks")
    text = (PROGRAMS / "multi_process_cases.py").read_text()
    (phantora.directory / "test_cases.py").write_text(text)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cases.py", "-k", chosen]
    run = phantora.run(["--gpus", "2"], words)
    assert run.exit_code == ends, run.errors
    if ends:
        assert "    assert self.rank == 0" in run.output
    else:
        assert "2 passed, 1 deselected" in run.output
        kinds = Counter(one["kind"] for one in run.data.operations)
        assert (kinds["all_reduce"], kinds["all_gather"]) == (1, 1)
        assert run.summary["trust"]["calls"]["unsupported"] == 0


EMPTIED = """
import os, sys, torch
import torch.multiprocessing as mp

def train(rank, how):
    given = dict(os.environ)
    os.environ.clear()
    if how == "meet":
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29514")
        torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    torch.cuda.set_device(rank)
    ones = torch.ones(4, device="cuda")
    if how == "meet":
        torch.distributed.all_reduce(ones)
    print(f"rank {rank}: {ones.sum().item()}\\n", end="", flush=True)
    os.environ.update(given)

if __name__ == "__main__":
    if len(sys.argv) > 2:
        train(0, "alone")
    else:
        mp.start_processes(train, ("meet",), nprocs=2, start_method=sys.argv[1])
"""


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_workers_that_empty_their_environment(phantora: Phantora, how: str) -> None:
    """Before they use a GPU, as PyTorch's tests of missing variables do: they had no GPU then."""
    program = phantora.directory / "emptied.py"
    program.write_text(EMPTIED)
    run = phantora.run(["--gpus", "2"], [program, how])
    assert run.exit_code == 0, run.errors
    assert sorted(run.output.splitlines()) == ["rank 0: 8.0", "rank 1: 8.0"]


@pytest.mark.parametrize(
    "options", [["--ranks", "1"], ["--gpus", "1"], ["--gpus", "1", "--no-zygote"]]
)
def test_a_rank_that_empties_its_environment(phantora: Phantora, options: list[str]) -> None:
    """Whoever has made the process."""
    program = phantora.directory / "emptied.py"
    program.write_text(EMPTIED)
    run = phantora.run(options, [program, "spawn", "alone"])
    assert run.exit_code == 0, run.errors
    assert "rank 0: 4.0" in run.output


HELPER = """
import os, subprocess, sys, torch
print(torch.ones(4, device="cuda").sum().item(), flush=True)
code = "import torch; print(torch.full((4,), 2.0, device='cuda').sum().item())"
command = [sys.executable, "-c", code]
if "SHELL" in sys.argv:
    command = ["sh", "-c", '"$0" "$@"; true', *command]
environment = None if "NONE" in sys.argv else {**os.environ, "MORE": "1"}
print(subprocess.run(command, env=environment, check=True).returncode, "the end", flush=True)
"""


@pytest.mark.parametrize("how", ["NONE", "OWN", "SHELL"])
def test_a_helper_with_an_environment_of_its_own(
    phantora: Phantora, tmp_path: Path, how: str
) -> None:
    """A program that uses a GPU starts another one that uses it, too: it is a helper, whatever
    environment it is given, and that is told. It ended the run as a second user of the GPU.
    """
    program = tmp_path / "helper.py"
    program.write_text(HELPER)
    run = phantora.run(["--gpus", "1"], [program, how])
    assert (run.exit_code, "0 the end" in run.output) == (0, True), run.errors
    assert "One process per GPU is simulated" in run.errors
    (told,) = run.summary["trust"]["unsimulated"]
    assert (told["rank"], told["device"], told["processes"]) == (0, 0, 1)
