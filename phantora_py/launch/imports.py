"""What is imported once for all ranks, before they are forked, and what is not.

A rank must not see that its imports were not its own: they must leave one thread and no device
context, which would be broken in the children, and must not have looked at what differs between
ranks. A module that does any of it is left to the ranks.
"""

import ast
import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phantora_py.launch import zygote

# What training programs load later than their imports, at a cost per rank above that of the fork
# itself: for several processes. A program with one would wait for what it may not need.
_LATER = ("torch.distributed.fsdp", "torch.distributed.tensor", "torch._dynamo")
# Words for what loads it: optimizers, wrappers, sharded tensors, the compiler and the profiler do,
# models, collectives and data loaders do not. Source: `sys.modules` after each, PyTorch 2.15.
_LOADS_LATER = re.compile(
    rb"optim|compile|parallel|fsdp|shard|checkpoint|dtensor|distribute_|profil|dynamo",
    re.IGNORECASE,
)
# With it `torch.cuda.is_available` asks NVML, after which a process can be forked. Source:
# torch/cuda/__init__.py.
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


@dataclass(frozen=True)
class Import:
    """`import module`, or `from module import names`."""

    module: str
    names: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The name that is imported first of all."""
        return self.module.partition(".")[0]

    def is_done(self) -> bool:
        """Whether it would load nothing. Packages such as transformers load a name at first use."""
        module = sys.modules.get(self.module)
        return module is not None and all(name in vars(module) for name in self.names)


def wanted(form: str, target: str, *, for_several: bool) -> list[Import]:
    """What a program and its own modules import at their top level, torch first. The program's own
    modules are left to the ranks. `for_several`: more than one process is to be forked.
    """
    program, own_directory = _locate(form, target)
    sources = list(_sources_of_program(program, own_directory))
    later = _LATER if for_several and _may_load_later(sources) else ()
    usual = [Import(name) for name in ("torch", *later)]
    return [*usual, *(one for source in sources for one in source.imports)]


def shareable(imports: Sequence[Import], left_out: Collection[str]) -> list[Import]:
    """Those that are worth a process of their own (`fork_server`), in their order, each once: of
    PyTorch itself only what nearly all programs have.
    """
    left_out = {*left_out, *sys.stdlib_module_names}
    return [
        one
        for one in dict.fromkeys(imports)
        if (package := one.package) not in left_out
        and (package != "torch" or (one.module in ("torch", *_LATER) and not one.names))
    ]


def preload(
    imports: Sequence[Import], left_out: Collection[str], of_ranks: Collection[str]
) -> dict[str, str]:
    """Imports all but the packages `left_out`.

    `of_ranks`: environment variables that differ between ranks; the others are set already.
    Returns packages that have to be left out next time, with the reasons; if there are any, no rank
    can be forked from this process.
    """
    unfit: dict[str, str] = {}
    with _asking_nvml():
        for one in imports:
            if one.package in left_out or one.is_done():
                continue
            reason = _import(one, of_ranks)
            if reason is not None:
                unfit.setdefault(one.package, reason)
    return unfit


def share(
    imports: Sequence[Import], left_out: Collection[str], of_ranks: Collection[str]
) -> dict[str, str]:
    """As `preload`, and makes ready all that ranks take from the process they are forked from."""
    with zygote.seldom_collected():
        unfit = preload(imports, left_out, of_ranks)
        torch = sys.modules.get("torch")
        if torch is not None and not unfit and torch.version.cuda:
            from phantora_py.rank.small_operations import small_operations  # noqa: PLC0415

            small_operations(torch)
    zygote.freeze()
    return unfit


def read_variables() -> frozenset[str]:
    """Environment variables that others than PyTorch have looked at while they were imported."""
    return frozenset(_read)


_read: set[str] = set()
_written: set[str] = set()


def _import(what: Import, of_ranks: Collection[str]) -> str | None:
    """Imports a module; returns why it has to be left to the ranks, if it has."""
    threads, was_forkable = _threads(), _cuda_is_forkable()
    try:
        with _watching_environment() as read:
            module = importlib.import_module(what.module)
            for name in what.names:
                if not hasattr(module, name):
                    importlib.import_module(f"{what.module}.{name}")
    except ModuleNotFoundError:
        return None  # Whether the program can do without it is for the ranks to find out.
    except (Exception, SystemExit) as error:
        # What is half imported may not be imported again.
        return f"its import failed ({type(error).__name__}: {error})"
    _read.update(read)
    if _threads() > threads:
        return "it starts threads when it is imported"
    if read.intersection(of_ranks):
        return f"it reads {', '.join(sorted(read.intersection(of_ranks)))} when it is imported"
    if was_forkable and not _cuda_is_forkable():
        return "it uses the GPU when it is imported"
    return None


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _cuda_is_forkable() -> bool:
    """Whether PyTorch will let forked children use the GPU. Only such a child knows."""
    torch = sys.modules.get("torch")
    if torch is None:
        return True
    pid = os.fork()
    if pid == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@contextlib.contextmanager
def _asking_nvml() -> Iterator[None]:
    if _ASK_NVML in os.environ:
        yield
        return
    os.environ[_ASK_NVML] = "1"
    try:
        yield
    finally:
        if _ASK_NVML not in _written:
            del os.environ[_ASK_NVML]


@contextlib.contextmanager
def _watching_environment() -> Iterator[set[str]]:
    """Yields a set, into which go the variables that are read by others than PyTorch. Those that
    are written are noted, too.
    """
    read: set[str] = set()
    usual: Any = type(os.environ)

    class Watched(usual):  # type: ignore[misc]
        def __getitem__(self, name: str) -> Any:
            if not _is_read_by_torch():
                read.add(name)
            return usual.__getitem__(self, name)

        def __setitem__(self, name: str, value: Any) -> None:
            _written.add(name)
            usual.__setitem__(self, name, value)

        def setdefault(self, name: str, value: Any = None) -> Any:
            _written.add(name)
            return usual.setdefault(self, name, value)

    os.environ.__class__ = Watched
    try:
        yield read
    finally:
        os.environ.__class__ = usual


def _is_read_by_torch() -> bool:
    """PyTorch's own modules may be shared: what they ask for at import is none of a rank's role."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in ("os", "collections.abc"):
        frame = frame.f_back  # type: ignore[assignment]
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    return name.partition(".")[0] == "torch"


def _locate(form: str, target: str) -> tuple[bytes, Path]:
    """The program's source, empty if it cannot be read, and the directory whose modules are its
    own.
    """
    if form == "text":
        return os.fsencode(target), Path.cwd()
    if form == "script":
        return _read_file(Path(target)), Path(target).resolve().parent
    top, *rest = target.split(".")
    directory = Path.cwd()
    found = importlib.util.find_spec(top)
    roots = list(found.submodule_search_locations or ()) if found else [str(directory / top)]
    for root in roots:
        for file in (Path(root, *rest).with_suffix(".py"), Path(root, *rest, "__main__.py")):
            if file.is_file():
                return _read_file(file), directory
    return b"", directory


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # The ranks will say so in Python's own words.


@dataclass(frozen=True)
class _Source:
    """A program's file, and what it imports that is not the program's own."""

    text: bytes
    imports: tuple[Import, ...]


def _sources_of_program(program: bytes, own_directory: Path) -> Iterator[_Source]:
    """A program and its own modules, each after one that imports it."""
    texts, seen = [program], set[Path]()
    while texts:
        text = texts.pop(0)
        others = []
        for one in _top_level_imports(text):
            if not _is_own(one.module, own_directory):
                others.append(one)
                continue
            path = own_directory.joinpath(*one.module.split("."))
            parts = (path, *(path / name for name in one.names))
            files = {part.with_suffix(".py") for part in parts}
            files |= {part / "__init__.py" for part in parts}
            new = sorted(file for file in files - seen if file.is_file())
            seen.update(new)
            texts += map(_read_file, new)
        yield _Source(text, tuple(others))


def _may_load_later(sources: Collection[_Source]) -> bool:
    """Whether a program does more than run operators and collectives of PyTorch.

    What other packages do is not looked at, nor is there anything of a program that cannot be read.
    """
    packages = {one.package for source in sources for one in source.imports}
    return (
        not packages <= {"torch", "numpy", *sys.stdlib_module_names}
        or not any(source.text for source in sources)
        or any(_LOADS_LATER.search(source.text) for source in sources)
    )


def _top_level_imports(source: bytes) -> Iterator[Import]:
    """What a program imports outside its functions and classes."""
    try:
        pending: list[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError):
        return  # The ranks will say so in Python's own words.
    while pending:
        statement = pending.pop(0)
        match statement:
            case ast.Import(names=names):
                yield from (Import(alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield Import(module, tuple(alias.name for alias in names if alias.name != "*"))
            case ast.Try(body=body):
                pending = [*body, *pending]


def _is_own(name: str, own_directory: Path) -> bool:
    """Whether a module lies in the program's directory, other than in an environment kept there."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return False
    candidates = (own_directory / top, own_directory / f"{top}.py")
    return any(candidate.exists() for candidate in candidates)
