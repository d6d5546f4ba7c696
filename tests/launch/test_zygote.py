"""The zygote: a program that it becomes."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phantora_py.launch import zygote

RUN = """
import sys
from phantora_py.launch import zygote
sys.path.pop(0)
sys.exit(zygote.run_program(sys.argv[1], sys.argv[2], sys.argv[3:]))
"""


def run_both(tmp_path: Path, source: str) -> list[tuple[int, str, str]]:
    """Runs a script by Python and by the zygote's way: exit status, output and error output."""
    (tmp_path / "train.py").write_text(source)
    ways = (["train.py", "a"], ["-c", RUN, "script", "train.py", "a"])
    return [answer(tmp_path, way) for way in ways]


def answer(directory: Path, arguments: list[str]) -> tuple[int, str, str]:
    """Exit status, output and error output of Python."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "source",
    [
        "import sys; print(__name__, __file__, sys.argv, sys.path[0])",
        "import sys; print(sys.modules['__main__'].__dict__ is globals(), __spec__, __package__)",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('went wrong')",
        "raise SystemExit",
        "def f():\n    raise ValueError('bad luck')\nf()",
        "import sys\nsys.excepthook = lambda kind, *_: print(kind)\n1 / 0",
        "this is no Python",
        "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)",
    ],
)
def test_a_script_cannot_tell(tmp_path: Path, source: str) -> None:
    """A script sees, says and returns what it does under `python train.py`."""
    by_python, by_zygote = run_both(tmp_path, source)
    assert by_zygote == by_python


@pytest.mark.parametrize(
    "text",
    [
        "import sys; print(__name__, '__file__' in globals(), sys.argv, sys.path[0])",
        "import sys; print(sys.modules['__main__'].__dict__ is globals(), __spec__, __package__)",
        "print(__loader__, __doc__, sorted(globals().keys() - {'__annotations__'}))",
        "import sys; sys.exit('went wrong')",
        "def f():\n    raise ValueError('bad luck')\nf()",
        "this is no Python",
        "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)",
    ],
)
def test_a_text_cannot_tell(tmp_path: Path, text: str) -> None:
    """A text sees, says and returns what it does under `python -c`; a newer Python shows the lines
    of the text in a traceback.
    """
    ways = (["-c", text, "a"], ["-c", RUN, "text", text, "a"])
    by_python, by_zygote = (answer(tmp_path, way) for way in ways)
    assert by_zygote[:2] == by_python[:2]
    assert by_zygote[2].splitlines()[-1:] == by_python[2].splitlines()[-1:]


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    """How often garbage is collected in a program of Python's, until the test says otherwise."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_a_program_s_garbage_is_collected_as_ever(usual: tuple[int, int, int]) -> None:
    """Only while modules are imported it is left alone for longer."""
    begun: list[str] = []
    gc.callbacks.append(lambda phase, _: begun.append(phase))
    try:
        with zygote.seldom_collected():
            made: list[list[int]] = [[] for _ in range(10_000)]
            assert not begun
        made += [[] for _ in range(1_000)]
        assert begun
    finally:
        gc.callbacks.pop()
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("own", [(0, 10, 10), (50_000, 20, 20)])
@pytest.mark.usefixtures("usual")
def test_what_a_module_sets_for_the_collector_is_kept(own: tuple[int, int, int]) -> None:
    """As in a program that imports it itself."""
    with zygote.seldom_collected():
        gc.set_threshold(*own)
    assert gc.get_threshold() == own
