"""Turns a child, forked from the process that has the imports, into the user's Python program."""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import io
import os
import runpy
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader
from typing import NoReturn

# New objects between two collections while modules are imported. With Python's own number, 700, a
# tenth of the time of PyTorch's imports goes into collections. Without any the memory that ranks
# share has more holes, and each rank then writes to a tenth more pages of it (measured).
_OBJECTS_BETWEEN = 20_000
# Descriptors that a process is given lie below (assumed).
_ABOVE_DESCRIPTORS = 512


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Garbage is collected less often: nearly all that imports make stays. What a module sets for
    the collector itself is kept.
    """
    usual = gc.get_threshold()
    seldom = (max(_OBJECTS_BETWEEN, usual[0]), *usual[1:])
    gc.set_threshold(*seldom)
    try:
        yield
    finally:
        if gc.get_threshold() == seldom:
            gc.set_threshold(*usual)


def freeze() -> None:
    """Keeps the garbage collector from writing to the pages that ranks are going to share."""
    gc.collect()
    gc.freeze()


def take_place(
    descriptors: Sequence[int], numbers: Sequence[int], environment: Mapping[str, str], folder: str
) -> None:
    """Gives this process what it would have been executed with. `numbers`: what the descriptors are
    to be. Raises: OSError.
    """
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _ABOVE_DESCRIPTORS) for one in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(moved, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)


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
