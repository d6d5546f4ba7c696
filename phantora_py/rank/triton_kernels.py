"""What ranks share of what Triton compiles: docs/decisions/compiled-kernels.md has the rule.

Owns one cache folder for all devices, a lock for each kernel that is being compiled, and the way of
the locks into Inductor's compile workers. What is compiled, and whether it is good to use, is left
to Triton and its cache.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

COMPILER = "triton.compiler.compiler"
CONFIG = "torch._inductor.config"
CACHE_FOLDERS = "torch._inductor.runtime.cache_dir_utils"
WORKERS = "torch._inductor.compile_worker.subproc_pool"
WORKER_PROGRAM = os.path.join("compile_worker", "__main__.py")
LOCKS = "kernel-locks"

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def share_cache(folders: ModuleType) -> None:
    """Triton's cache is that of the first device, unless the user has named one.

    Inductor gives each device a folder; what Triton keeps there does not depend on it.
    """
    os.environ.setdefault("TRITON_CACHE_DIR", folders.triton_cache_dir(0))


def compile_in_place(config: ModuleType) -> None:
    """Ranks other than the first have no compile workers, unless the user says how many.

    Such a pool begins with a Python of its own that imports torch, for every rank; what others wait
    for is compiled by the first one's. `config`: Inductor's.
    """
    if (
        os.environ.get("PHANTORA_RANK", "0") != "0"
        and "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ
    ):
        config.compile_threads = 1  # type: ignore[attr-defined]


def compile_once(run_dir: Path, compiler: ModuleType) -> None:
    """Whoever wants a kernel that another process of the run compiles waits and finds it done.

    Triton looks into its cache before it compiles; ranks that look at the same time would all
    compile.
    """
    usual = compiler.compile
    locks = run_dir / LOCKS
    locks.mkdir(exist_ok=True)

    @functools.wraps(usual)
    def compile_locked(source: Any, target: Any = None, options: Any = None, **others: Any) -> Any:
        with _locked(locks / _name(source, options)):
            return usual(source, target, options, **others)

    for name in (COMPILER, "triton.compiler", "triton"):
        module = sys.modules.get(name)
        if getattr(module, "compile", None) is usual:
            module.compile = compile_locked  # type: ignore[union-attr]


def lock_in_workers(module: ModuleType) -> None:
    """Inductor's compile workers find our sitecustomize. They get the rank's search path, which has
    no folder of ours.
    """
    usual: Callable[..., None] = module.SubprocPool.__init__

    @functools.wraps(usual)
    def start(*arguments: Any, **options: Any) -> None:
        sys.path.insert(0, SITE)
        try:
            usual(*arguments, **options)
        finally:
            sys.path.remove(SITE)

    module.SubprocPool.__init__ = start


def is_worker() -> bool:
    """Whether this process is one that Inductor compiles in."""
    return any(word.endswith(WORKER_PROGRAM) for word in sys.orig_argv[1:2])


def _name(source: Any, options: Any) -> str:
    """The same for the same kernel. Two that share it by chance wait for each other, no more."""
    own = source.hash() if hasattr(source, "hash") else str(source)
    return hashlib.sha256(f"{own} {sorted((options or {}).items())}".encode()).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a file's lock, which the kernel takes from a process that dies.

    Closing would be no release while a child that was forked meanwhile has the file open.
    """
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
