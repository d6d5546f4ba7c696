"""Records name the line of the user's program, with and without the GIL."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fake_run import FakeRun

SITE = 2  # ph::RecordKind
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
BEGIN = """
import ctypes, json, os, sys, threading
released, held = ctypes.CDLL(None), ctypes.PyDLL(None)
assert released.ph_attach(os.environb[b"PHANTORA_RUN_DIR"], 0) == 1
"""
PROGRAM = f"""{BEGIN}
assert released.ph_current_site() == 0  # nothing is trusted before it was compared under the GIL

def call():
    return held.ph_current_site(), released.ph_current_site()

def twice():
    return [released.ph_current_site() for _ in range(2)]

def through_library():
    return json.dumps(Odd(), default=repr)

class Odd:
    def __repr__(self):
        return str(released.ph_current_site())

def in_generator():
    yield released.ph_current_site()

first = call()
assert first[0] == first[1] > 0
assert call() == first
assert len(set(twice())) == 1
assert through_library() == through_library()
assert next(in_generator()) > 0
thread = threading.Thread(target=call)
thread.start()
thread.join()
print("ok")
"""
LINES = {name: number for number, name in enumerate(PROGRAM.splitlines(), 1)}


def find_interpreter(version: str) -> str | None:
    """The interpreter's own path, for what is in PATH may be a version manager's script."""
    command = [f"python{version}", "-c", "import sys; print(sys.executable)"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()


def run_program(directory: Path, python: str, text: str) -> FakeRun:
    """With program.py in `directory`."""
    interpreter = find_interpreter(python)
    if interpreter is None:
        pytest.skip(f"no python{python} here")
    script = directory / "program.py"
    script.write_text(text)
    run = FakeRun(directory)
    result = run.start(interpreter, str(script))
    assert result.stdout == "ok\n", result.stderr
    return run


@pytest.mark.parametrize("python", PYTHONS)
def test_sites_name_the_users_lines(tmp_path: Path, python: str) -> None:
    """File, line and function of each call are those of the program, one id for each place."""
    run = run_program(tmp_path, python, PROGRAM)
    comprehension = "<listcomp>" if python < "3.12" else "twice"
    expected = [
        ("    return held.ph_current_site(), released.ph_current_site()", "call"),
        ("    return [released.ph_current_site() for _ in range(2)]", comprehension),
        ("        return str(released.ph_current_site())", "__repr__"),
        ("    yield released.ph_current_site()", "in_generator"),
    ]
    # CPython 3.12.1 makes a call of its own as it prints.
    last = ":" + str(LINES['print("ok")']) + " <module>"
    told = [record for record in run.records() if record.kind == SITE]
    sites = [record for record in told if not record.payload.endswith(last)]
    assert [site.payload for site in sites] == [
        f"{tmp_path / 'program.py'}:{LINES[line]} {function}" for line, function in expected
    ]
    assert [site.id for site in sites] == [1, 2, 3, 4]


@pytest.mark.parametrize("python", PYTHONS)
def test_code_that_is_made_anew_has_lines_of_its_own(tmp_path: Path, python: str) -> None:
    """What `exec` runs is freed, and what is made next lies at the same address."""
    text = f"""{BEGIN}
held.ph_current_site()
for number in range(20):
    exec(compile("\\n" * number + "released.ph_current_site()", "made.py", "exec"))
    exec("def made():\\n" + "\\n" * number + "    released.ph_current_site()\\nmade()")
print("ok")
"""
    run = run_program(tmp_path, python, text)
    sites = {record.payload for record in run.records() if record.kind == SITE}
    made = {f"made.py:{line} <module>" for line in range(1, 21)}
    assert made | {f"<string>:{line} made" for line in range(2, 22)} <= sites


def test_library_frames_are_passed_over(tmp_path: Path) -> None:
    """A call made in an installed package belongs to the line of the user's that led there."""
    package = tmp_path / "site-packages" / "library.py"
    package.parent.mkdir()
    package.write_text("def work(call):\n    return call()\n")
    run = FakeRun(tmp_path)
    code = f"""
sys.path.insert(0, {str(package.parent)!r})
import library
ctypes.PyDLL(None).ph_current_site()
def train():
    library.work(shim.ph_current_site)
train()
"""
    run.python(code)
    last = [record for record in run.records() if record.kind == SITE][-1]
    assert last.payload.startswith("<string>:")
    assert last.payload.endswith(" train")


def test_the_text_that_starts_a_worker_is_nobodys(tmp_path: Path) -> None:
    """A worker whose program is an installed package has its calls at that package's lines."""
    package = tmp_path / "site-packages" / "library.py"
    starter = tmp_path / "site-packages" / "multiprocessing" / "spawning.py"
    starter.parent.mkdir(parents=True)
    package.write_text("def work(call):\n    return [call()][0]\n")
    starter.write_text("def spawn_main(work, *arguments):\n    return work(*arguments)\n")
    run = FakeRun(tmp_path)
    run.python(f"""
sys.path[:0] = [{str(package.parent)!r}, {str(starter.parent)!r}]
import library, spawning
ctypes.PyDLL(None).ph_current_site()
spawning.spawn_main(library.work, shim.ph_current_site)
""")
    last = [record for record in run.records() if record.kind == SITE][-1]
    assert last.payload == f"{package}:2 work"


def test_autograd_threads_have_a_name_of_their_own(tmp_path: Path) -> None:
    """A thread of the autograd engine has no Python frame; its calls are the backward pass."""
    run = FakeRun(tmp_path)
    run.python("""
libc = ctypes.CDLL(None)
ctypes.PyDLL(None).ph_current_site()
entry = ctypes.cast(libc.ph_current_site, ctypes.c_void_p)
thread = ctypes.c_ulong()
libc.pthread_attr_init(attribute := ctypes.create_string_buffer(64))
libc.prctl(15, b"pt_autograd_0")  # PR_SET_NAME: threads inherit it
assert libc.pthread_create(ctypes.byref(thread), attribute, entry, None) == 0
assert libc.pthread_join(thread, None) == 0
""")
    last = [record for record in run.records() if record.kind == SITE][-1]
    assert last.payload == "backward (autograd engine)"
