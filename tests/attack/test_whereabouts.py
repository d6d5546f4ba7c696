"""Where a rank is gets read from outside, at any moment, and no rank comes to harm by it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from amounts import inputs
from fake_run import FakeRun
from stand_in_agent import StandInAgent
from test_python_frame import find_interpreter

import phantora_py.rank
from phantora_py.agent.whereabouts import whereabouts
from phantora_py.launch.libraries import CUDA_MAJOR, shim_directory

SITE = Path(phantora_py.rank.__file__).parent / "site"
EXAMPLES = inputs(1000)

WAITING = """
import os
def read(end):
    # two lines further than the function's first
    return os.read(end, 1)
def métier(end):
    return [read(end) for _ in "a"]
print("ready", flush=True)
métier(0)
"""

BUSY = """
import os, sys
def numbers(count):
    for i in range(count):
        yield i
def leaf(a, *b, **c):
    return sum(numbers(3)) + len(b)
def deep(n):
    return leaf(1, 2, k=4) if n == 0 else deep(n - 1) + leaf(n)
class Odd:
    def __init__(self): self.x = leaf(1)
    def __del__(self): leaf(2)
def fail():
    try:
        deep(5) / 0
    except ZeroDivisionError:
        pass
SOURCE = "def made(a, n):\\n    return [leaf(a) for _ in numbers(2)] and n and made(a, n - 1)"
def work():
    while True:
        deep(200)
        sorted([Odd() for _ in range(5)], key=lambda one: one.x)
        fail()
        names = {"leaf": leaf, "numbers": numbers}
        exec(compile(SOURCE, sys.argv[0], "exec"), names)
        names["made"](1, 30)
print("ready", flush=True)
work()
"""

# A caller's frame at an address where there is nothing, as it may seem amid a change.
WILD = """
import ctypes, json, os, sys
left = json.load(open(os.environ["PHANTORA_RUN_DIR"] + "/rank-0.whereabouts"))["python"]
def pointer(address):
    return ctypes.c_uint64.from_address(address)
def main():
    frame = pointer(left["thread"] + left["thread_frames"]).value
    if left["cframe_current"] >= 0:
        frame = pointer(frame + left["cframe_current"]).value
    previous = pointer(frame + left["frame_previous"])
    wait = ctypes.CDLL(None).read
    kept, previous.value = previous.value, 0x10
    wait(0, ctypes.create_string_buffer(1), 1)
    previous.value = kept
print("ready", flush=True)
main()
print("alive")
"""

IN_CALL = """
import ctypes, sys
cuda = ctypes.CDLL(None)
stream = ctypes.c_void_p()
print("ready", flush=True)
sys.stdin.readline()
cuda.cudaStreamSynchronize(stream)
"""


@contextmanager
def rank(
    directory: Path, program: str, interpreter: str = sys.executable, *, answered: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """A program that runs as rank 0 and has said that it is ready."""
    script = directory / "program.py"
    script.write_text(program)
    run = FakeRun(directory)
    agent = StandInAgent(directory, ranks=1)
    cudart = shim_directory(CUDA_MAJOR) / f"libcudart.so.{CUDA_MAJOR}"
    variables = {
        "PYTHONPATH": str(SITE),
        "LD_PRELOAD": f"{run.environment['LD_PRELOAD']}:{cudart}",
    }
    with subprocess.Popen(
        [interpreter, str(script)],
        env={**run.environment, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if not answered:
                agent.close()
            yield process
        finally:
            process.kill()
            agent.close()


def line(program: str, text: str) -> int:
    """The number of the line that has this text."""
    return next(i for i, found in enumerate(program.splitlines(), 1) if text in found)


def until(found: str, directory: Path, process: subprocess.Popen[str]) -> str:
    """The answer once it contains `found`: the program may be just before it."""
    for _ in range(1000):
        answer = whereabouts(directory, 0, process.pid)
        if found in answer:
            break
    return answer


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_the_line_of_a_rank_that_waits(tmp_path: Path, python: str) -> None:
    """File, line and function of the user's are exact, with names that are not ASCII too."""
    interpreter = find_interpreter(python)
    if interpreter is None:
        pytest.skip(f"no python{python} here")
    with rank(tmp_path, WAITING, interpreter) as process:
        number = line(WAITING, "os.read(end, 1)")
        expected = f", at {tmp_path}/program.py:{number} read"
        assert until(expected, tmp_path, process) == expected


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_what_a_rank_imports(tmp_path: Path, python: str) -> None:
    """The package that the user's line imports, not one that this imports."""
    interpreter = find_interpreter(python)
    if interpreter is None:
        pytest.skip(f"no python{python} here")
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "large.py").write_text("import inner\n")
    (packages / "inner.py").write_text("import os\nos.read(0, 1)\n")
    path = f"import sys; sys.path.append({str(packages)!r})"
    source = f"{path}\n\nprint('ready', flush=True)\nimport large\n"
    with rank(tmp_path, source, interpreter) as process:
        expected = f", at {tmp_path}/program.py:4 <module>, importing large"
        assert until(expected, tmp_path, process) == expected


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_a_busy_rank_is_asked_all_the_time(tmp_path: Path, python: str) -> None:
    """It lives on, every answer is a line of a function that it has, and nearly all are lines."""
    interpreter = find_interpreter(python)
    if interpreter is None:
        pytest.skip(f"no python{python} here")
    functions = {*re.findall(r"def (\w+)", BUSY), "<lambda>", "<module>", "<listcomp>", "<genexpr>"}
    with rank(tmp_path, BUSY, interpreter) as process:
        answers = Counter(whereabouts(tmp_path, 0, process.pid) for _ in range(EXAMPLES))
        assert process.poll() is None
        signals = Path(f"/proc/{process.pid}/status").read_text()
    lines = 0
    for answer, count in answers.items():
        found = re.fullmatch(rf", at {re.escape(str(tmp_path))}/program.py:(\d+) (\S+)", answer)
        if found:
            assert 0 < int(found[1]) <= len(BUSY.splitlines()), answers
            assert found[2] in functions, answers
            lines += count
        else:
            assert answer == ", at a line that could not be read", answers
    assert lines > 0.9 * EXAMPLES, answers
    # Nothing of ours runs in it: of the signals that have a handler none is a real-time one.
    caught = int(re.search(r"^SigCgt:\s*(\w+)$", signals, re.MULTILINE)[1], 16)  # type: ignore[index]
    assert caught >> 34 == 0


def test_a_wild_pointer_among_the_frames(tmp_path: Path) -> None:
    """Whoever follows it dies: the rank does not, and it is said that its line is not known."""
    with rank(tmp_path, WILD) as process:
        expected = ", at a line that could not be read"
        assert until(expected, tmp_path, process) == expected
        output, _ = process.communicate("x")
    assert (process.returncode, output) == (0, "alive\n")


def test_what_a_rank_has_garbled(tmp_path: Path) -> None:
    """The file in which it says how it can be read is its own: nothing in it ends the agent."""
    file = tmp_path / "rank-0.whereabouts"
    with rank(tmp_path, WAITING) as process:
        left = json.loads(file.read_text())
        assert "program.py" in until("program.py", tmp_path, process)
        layout = left["python"]
        texts = [
            *("", "[]", "{}", "no JSON", "[" * 10_000, '{"pid": "x", "call": 0}'),
            *(json.dumps({**left, key: value}) for key in left for value in (None, -5, 1 << 70)),
            *(
                json.dumps({**left, "python": {**layout, key: value}})
                for key in layout
                for value in ("x", -7, 1 << 62)
            ),
            *(
                json.dumps({**left, "python": {k: v for k, v in layout.items() if k != key}})
                for key in layout
            ),
        ]
        file.unlink()
        for text in texts:
            file.write_text(text)
            answer = whereabouts(tmp_path, 0, process.pid)
            assert "could not be read" in answer or "without" in answer or "outside" in answer, text
        # Within their limits numbers may still be wrong: there is an answer.
        for key in layout:
            file.write_text(json.dumps({**left, "python": {**layout, key: 40}}))
            assert whereabouts(tmp_path, 0, process.pid).startswith(", "), key
        file.unlink()
        os.mkfifo(file)
        assert whereabouts(tmp_path, 0, process.pid) == ", at a line that could not be read"


def test_the_call_that_a_rank_is_in(tmp_path: Path) -> None:
    """It is named beside the line."""
    with rank(tmp_path, IN_CALL, answered=False) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        number = line(IN_CALL, "cuda.cudaStreamSynchronize")
        expected = f", at {tmp_path}/program.py:{number} <module> (in cudaStreamSynchronize)"
        assert until(expected, tmp_path, process) == expected


def test_the_default_of_our_signal(tmp_path: Path) -> None:
    """A program that sets all handlers to the default, by either function, outlives an alarm."""
    program = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
ours = signal.SIGRTMAX - 4
signal.signal(ours, lambda *_: None)
libc.signal(ours, None)
signal.signal(ours, signal.SIG_DFL)
os.kill(os.getpid(), ours)
print("alive")
"""
    run = FakeRun(tmp_path)
    assert run.start(sys.executable, "-c", program).stdout == "alive\n"


def test_a_process_that_is_no_rank_yet(tmp_path: Path) -> None:
    """A shell script before its first Python has left nothing behind, and that is what is said."""
    expected = ", before its first line of Python and its first GPU call"
    assert whereabouts(tmp_path, 0, os.getpid()) == expected
