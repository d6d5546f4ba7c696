"""`--host-time auto`: the nearest model to real hosts that the program's interpreter allows."""

from __future__ import annotations

import pytest

from phantora_py.launch.host_time import choose_host_time
from phantora_py.launch.interpreter import Interpreter
from phantora_py.launch.options import RunOptions
from sim_server.errors import UsageError


def options(host_time: str, *, modules: bool = False) -> RunOptions:
    return RunOptions(command=("sh",), host_time=host_time, modules=modules)


def python(version: str) -> Interpreter:
    return Interpreter("python", "prefix", version, None)


@pytest.mark.parametrize("interpreter", [None, python("3.10.0"), python("3.13.9")])
def test_work_is_counted_where_it_can_be(interpreter: Interpreter | None) -> None:
    """A program in another language has its calls alone."""
    assert choose_host_time(options("auto"), interpreter) == ("counted", [])


@pytest.mark.parametrize("version", ["3.9.18", "3.14.0"])
def test_other_pythons_have_fixed_times_and_a_note(version: str) -> None:
    """What is not known is not counted, and said."""
    chosen, (note,) = choose_host_time(options("auto"), python(version))
    assert chosen == "fixed"
    assert note.endswith(f"of Python 3.10 to 3.13 can be counted, and this is {version}.")
    assert choose_host_time(options("counted"), python(version)) == ("counted", [])


def test_modules_need_host_time() -> None:
    """Without it all work is issued at once."""
    assert choose_host_time(options("auto", modules=True), None) == ("counted", [])
    with pytest.raises(UsageError, match="--modules is not for --host-time off"):
        choose_host_time(options("off", modules=True), None)
