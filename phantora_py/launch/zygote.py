"""Imports once what every rank needs, and turns a forked child into the user's Python program.

What happens here must leave the process with one thread, no device context and no thread pool: all
three would be broken in the children.
"""

import ast
import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import io
import os
import runpy
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader
from pathlib import Path
from typing import NoReturn

# What training programs load later than their imports, at a cost per rank above that of the fork
# itself.
_ALWAYS = (
    "torch",
    "torch.distributed",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.nn.parallel",
    "torch.optim",
    "torch.utils.data",
    "torch._dynamo",
)


def preload(form: str, target: str) -> str | None:
    """Imports torch and what the program imports at its top level.

    The program's own modules are left to the ranks: they may look at a rank's environment. Returns
    the reason why ranks cannot be forked from this process afterwards, or None.
    """
    source, own_directory = _locate(form, target)
    for name in (*_ALWAYS, *_top_level_imports(source)):
        if name in sys.modules or _is_own(name, own_directory):
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            continue  # Whether the program can do without it is for the ranks to find out.
        except (Exception, SystemExit) as error:
            # What is half imported may not be imported again.
            return f"the import of {name} failed ({type(error).__name__}: {error})"
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"the imports of the program started {threads - 1} more threads"
    return None


def freeze() -> None:
    """Keeps the garbage collector from writing to the pages that ranks are going to share."""
    gc.collect()
    gc.freeze()


def run_program(form: str, target: str, arguments: Sequence[str]) -> int:
    """Runs the program as `python target arguments` would; returns its exit status."""
    try:
        if form == "module":
            sys.path.insert(0, os.getcwd())
            sys.argv = [target, *arguments]
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        elif form == "text":
            _run_text(target, arguments)
        else:
            _run_script(target, arguments)
    except SystemExit as end:
        return _exit_status(end.code)
    except BaseException as error:
        trace = _without_our_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def end_rank(status: int) -> NoReturn:
    """Ends the process as Python does, except that the modules are not taken down.

    That would write to all pages shared with the zygote. What a program may expect of its end is
    done: threads are waited for, exit handlers run, files that were left open are written out.
    `multiprocessing` ends its forked children in this way too.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for found in gc.get_objects():
        if issubclass(type(found), io.IOBase):
            # A file that is closed already, or whose disk is full: Python would ignore it here too.
            with contextlib.suppress(OSError, ValueError):
                found.flush()
    # The handler that the rank's runtime leaves with libc does not run.
    ctypes.CDLL(None).ph_exit(ctypes.c_int64(status))
    os._exit(status)


def _exit_status(code: object) -> int:
    """The exit status for what was given to sys.exit."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _run_script(path: str, arguments: Sequence[str]) -> None:
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    sys.argv = [path, *arguments]
    main = _new_main()
    main.__file__ = os.path.abspath(path)
    main.__loader__ = SourceFileLoader("__main__", path)
    with io.open_code(path) as file:
        code = compile(file.read(), main.__file__, "exec")
    exec(code, main.__dict__)


def _run_text(text: str, arguments: Sequence[str]) -> None:
    """What `python -c` does, but that a traceback shows no lines of the text."""
    sys.path.insert(0, "")
    sys.argv = ["-c", *arguments]
    main = _new_main()
    main.__loader__ = BuiltinImporter
    exec(compile(text, "<string>", "exec"), main.__dict__)


def _new_main() -> types.ModuleType:
    """Unlike runpy's, it stays in place at the end, for exit handlers and threads."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main


def _without_our_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


def _locate(form: str, target: str) -> tuple[bytes, Path]:
    """The program's source, empty if it cannot be read, and the directory whose modules are its
    own.
    """
    if form == "text":
        return os.fsencode(target), Path.cwd()
    if form == "script":
        return _read(Path(target)), Path(target).resolve().parent
    top, *rest = target.split(".")
    directory = Path.cwd()
    found = importlib.util.find_spec(top)
    roots = list(found.submodule_search_locations or ()) if found else [str(directory / top)]
    for root in roots:
        for file in (Path(root, *rest).with_suffix(".py"), Path(root, *rest, "__main__.py")):
            if file.is_file():
                return _read(file), directory
    return b"", directory


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # The ranks will say so in Python's own words.


def _top_level_imports(source: bytes) -> Iterator[str]:
    """Names of the modules that a program imports outside its functions and classes."""
    try:
        pending: list[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError):
        return  # The ranks will say so in Python's own words.
    while pending:
        statement = pending.pop(0)
        match statement:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Try(body=body):
                pending = [*body, *pending]


def _is_own(name: str, own_directory: Path) -> bool:
    """Whether a module lies in the program's directory, other than in an environment kept there."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return False
    candidates = (own_directory / top, own_directory / f"{top}.py")
    return any(candidate.exists() for candidate in candidates)
