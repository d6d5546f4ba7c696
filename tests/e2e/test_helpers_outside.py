"""What a rank has others do outside the simulation is done before its sleeps and time-outs end."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

TURN_NS = 10_000_000
READINGS_NS = 5_000
ASYNCIO_NS = 2_000_000  # it rounds up to milliseconds
# Popen.wait begins with a sleep of half a millisecond, which doubles.
FIRST_SLEEPS_NS = 2_000_000

ENDS = {
    "wait": 0,
    "communicate": "5\n",
    "select": 1,
    "poll a child": 1,
    "poll a file": [1, 0],
    "poll a daemon's file": [1, -9],
    "poll a pool": [1, 3],
    "connection.wait": 1,
    "poll queues": 3,
    "asyncio.sleep": 1,
    "poll a child in a thread": 1,
    "sleep beside a daemon": None,
}


def run_beside(phantora: Phantora, place: Path, busy: int) -> Run:
    """A run beside so many processes that keep this machine's processors busy."""
    place.mkdir()
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        return phantora.run(["--ranks", "1"], [PROGRAMS / "helpers_outside.py", place])
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_what_is_waited_for_is_ready_at_the_first_look(phantora: Phantora, tmp_path: Path) -> None:
    """However little virtual time the program gives it, and at every run the same."""
    runs = [run_beside(phantora, tmp_path / str(busy), busy) for busy in (0, os.cpu_count() or 1)]
    for run in runs:
        assert run.exit_code == 0, run.errors
        took = json.loads(run.output)
        assert {name: end for name, (end, _) in took.items()} == ENDS
        for name, (_, took_ns) in took.items():
            if name in {"wait", "communicate", "select", "connection.wait", "poll queues"}:
                assert took_ns <= FIRST_SLEEPS_NS, name
            else:
                turns = 5 if name.endswith("thread") else 1
                assert -READINGS_NS <= took_ns - turns * TURN_NS <= ASYNCIO_NS, name
    assert len({run.summary["digest"] for run in runs}) == 1


def test_a_child_that_sleeps_has_the_time_that_the_rank_gives_it(phantora: Phantora) -> None:
    """In reality, as on a real machine: one that sleeps too long is not there."""
    code = (
        "import subprocess, torch\n"
        "torch.cuda.init()\n"
        "print(subprocess.Popen(['sleep', '0.5']).wait(timeout=30))\n"
        "try: subprocess.Popen(['sleep', '60']).wait(timeout=0.5)\n"
        "except subprocess.TimeoutExpired: print('late')\n"
    )
    run = phantora.run(["--ranks", "1"], ["-c", code])
    assert run.exit_code == 0, run.errors
    assert run.output.split() == ["0", "late"]


def installed(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: nox -s frameworks")


@pytest.mark.frameworks
def test_wandb(phantora: Phantora) -> None:
    """Its service is a program in Go, which tells by a file that it is there."""
    installed("wandb")
    code = (
        "import torch, wandb\n"
        "torch.cuda.init()\n"
        "with wandb.init(mode='offline', project='p') as run:\n"
        "    for step in range(3): run.log({'step': step})\n"
        "    print(run.summary['step'])\n"
    )
    run = phantora.run(["--ranks", "1"], ["-c", code], {"WANDB_DIR": str(phantora.directory)})
    assert run.exit_code == 0, run.errors
    assert run.output.split() == ["2"]


@pytest.mark.frameworks
def test_tensorboard(phantora: Phantora) -> None:
    """A thread of the program writes what it logs."""
    installed("tensorboard")
    code = (
        "import sys, torch\n"
        "from torch.utils.tensorboard import SummaryWriter\n"
        "torch.cuda.init()\n"
        "with SummaryWriter(sys.argv[1]) as writer:\n"
        "    for step in range(3): writer.add_scalar('loss', 0.5, step)\n"
    )
    run = phantora.run(["--ranks", "1"], ["-c", code, phantora.directory / "tensorboard"])
    assert run.exit_code == 0, run.errors
    (events,) = (phantora.directory / "tensorboard").glob("events.*")
    assert events.read_bytes().count(b"loss") == 3


@pytest.mark.frameworks
def test_an_extension_is_compiled_by_one_rank(phantora: Phantora, tmp_path: Path) -> None:
    """The other polls for the end of its lock with sleeps."""
    installed("ninja")
    code = (
        "import torch\n"
        "from torch.utils.cpp_extension import load_inline\n"
        "torch.cuda.init()\n"
        "source = 'int add(int a, int b) { return a + b; }'\n"
        "print(load_inline('added', source, functions=['add']).add(2, 3))\n"
    )
    run = phantora.run(["--ranks", "2"], ["-c", code], {"TORCH_EXTENSIONS_DIR": str(tmp_path)})
    assert run.exit_code == 0, run.errors
    assert [line[-1] for line in run.output.splitlines()] == ["5", "5"]


ASKS = """
import json, socket, sys, time, torch
torch.cuda.init()
family, address = json.loads(sys.argv[1])
client = socket.socket(family)
client.settimeout(30)
client.connect(tuple(address) if isinstance(address, list) else address)
client.send(b"?")
print(client.recv(9).decode())
client.send(b"?")
client.setblocking(False)
for turn in range(300):
    try:
        print(client.recv(9).decode())
        break
    except BlockingIOError:
        time.sleep(0.1)
client.close()
start = time.monotonic()
time.sleep(1000)
print(round(time.monotonic() - start))
"""


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_service_of_this_machine_has_time_to_answer(
    phantora: Phantora, tmp_path: Path, family: socket.AddressFamily
) -> None:
    """In reality, while the rank has a connection to it; and a sleep after that takes none."""
    with socket.socket(family) as server:
        server.bind(str(tmp_path / "service") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        server.listen()

        def serve() -> None:
            with server.accept()[0] as peer:
                for _ in range(2):
                    peer.recv(1)
                    time.sleep(1)
                    peer.send(b"late")

        threading.Thread(target=serve, daemon=True).start()
        where = json.dumps([family, server.getsockname()])
        options = ["--ranks", "1"] + ["--network", "host"] * (family == socket.AF_INET)
        run = phantora.run(options, ["-c", ASKS, where])
    assert run.exit_code == 0, run.errors
    assert run.output.split() == ["late", "late", "1000"]
