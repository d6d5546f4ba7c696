"""Starting a module of this installation as a process of its own."""

import sys
from pathlib import Path

import phantora_py

# A signal ends it without a word, which is for who started it: Python would write a traceback.
# `_signal` is built in; `signal` would be read from files, and interrupted meanwhile.
_HEAD = """\
import _signal
if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
import runpy, sys
"""
_RUN = """\
sys.path[0] = {path!r}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
# Another interpreter's own modules come first: its PyTorch beside ours, above all.
_RUN_ELSEWHERE = """\
sys.path[0:1] = []
sys.path.append({path!r})
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def module_command(module: str, *flags: str, interpreter: str | None = None) -> list[str]:
    """The command for `module`, to be followed by its arguments. `flags`: of the interpreter, which
    is ours unless it is named.

    `python -m` looks into the working directory first, where a checkout of phantora without its
    compiled parts may lie.
    """
    path = str(Path(phantora_py.__file__).parent.parent)
    program = _RUN if interpreter is None else _RUN_ELSEWHERE
    text = _HEAD + program.format(path=path, module=module)
    return [interpreter or sys.executable, *flags, "-c", text]
