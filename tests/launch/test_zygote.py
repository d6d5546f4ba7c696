"""The zygote: what it imports, and a program that it becomes."""

import subprocess
import sys
from pathlib import Path

import pytest

from phantora_py.launch import imports

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


def test_imports_of_the_program_are_found() -> None:
    """Imports at the top level count, also in `try`; those in functions do not."""
    source = (
        b"import os, a.b\nfrom c import d\nfrom . import e\n"
        b"try:\n    import f\nexcept ImportError:\n    f = None\n"
        b"def main():\n    import g\n"
    )
    assert list(imports._top_level_imports(source)) == ["os", "a.b", "c", "f"]


def test_own_modules_are_left_to_the_ranks(tmp_path: Path) -> None:
    """What lies beside the script may look at a rank's environment when it is imported."""
    (tmp_path / "model.py").touch()
    (tmp_path / "package").mkdir()
    assert imports._is_own("model", tmp_path)
    assert imports._is_own("package.part", tmp_path)
    assert not imports._is_own("numpy.linalg", tmp_path)


def test_a_program_that_cannot_be_read_is_left_to_the_ranks() -> None:
    """Python's own message is the best one."""
    assert list(imports._top_level_imports(b"this is no Python")) == []
