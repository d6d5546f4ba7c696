"""A view of the machine's files in which only named directories can be written to."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from phantora_py.isolation import system

# Kernel interfaces: not files of the machine's, and programs write to both.
_KERNEL = ("/dev", "/proc")
# Where PyTorch and its companions keep what they download and compile, unless told otherwise.
_CACHES = (".cache", ".triton")
_CACHE_VARIABLES = (
    *("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"),
    *("TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH"),
    *("TRITON_CACHE_DIR", "TRITON_HOME"),
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def writable_directories(named: Sequence[Path], environment: Mapping[str, str]) -> list[str]:
    """What an unchanged program writes to: working directory, temporary files, caches; and what
    the user named. Outermost first. A cache that the user has named is made, as its first user
    would: nothing can be bound to what is not there.
    """
    caches = [Path(environment[name]) for name in _CACHE_VARIABLES if environment.get(name)]
    for cache in caches:
        with suppress(OSError):  # Then the program cannot make it either.
            cache.mkdir(parents=True, exist_ok=True)
    caches += [Path.home() / cache for cache in _CACHES]
    wanted = [Path.cwd(), Path("/tmp"), Path(tempfile.gettempdir()), *caches, *named]
    return sorted({os.path.realpath(path) for path in wanted if path.is_dir()})


def protect(writable: Sequence[str]) -> None:
    """Makes all files of the calling process's mount namespace read-only, but for those below
    `writable`. Raises: OSError.
    """
    for path in writable:
        system.mount(path, path, "", system.MS_BIND | system.MS_REC)
    spared = [*writable, *_KERNEL]
    for point, options in list(_mounts()):
        if not any(point == path or point.startswith(f"{path}/") for path in spared):
            system.make_read_only(point, options)
    # The working directory is still that of the mount below.
    os.chdir(os.getcwd())


def _mounts() -> Iterator[tuple[str, list[str]]]:
    """Mount points that can be reached, with their options. Source: proc(5), mountinfo."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point, options = line.split()[4:6]
        path = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), point)
        if os.path.exists(path):
            yield path, options.split(",")
