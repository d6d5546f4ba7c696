"""Ranks that want the same kernel compile it once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from phantora_py.rank.triton_kernels import (
    compile_in_place,
    is_worker,
    lock_in_workers,
    share_cache,
)

# A compiler that looks into a cache, and if it finds nothing takes its time. Arguments: the cache
# and the run's directory.
COMPILES = """
import sys, time, types
from pathlib import Path
from phantora_py.rank.triton_kernels import COMPILER, compile_once

cache, run_dir = map(Path, sys.argv[1:])

class Source:
    def __init__(self, text): self.text = text
    def hash(self): return self.text

def compile(source, target=None, options=None):
    if source.text == "bad": raise ValueError(source.text)
    if not (cache / source.text).exists():
        time.sleep(0.2)
        (cache / source.text).touch()
        print("compiled", source.text, options)

compiler, triton = types.ModuleType(COMPILER), types.ModuleType("triton")
compiler.compile = triton.compile = compile
sys.modules |= {COMPILER: compiler, "triton": triton}
compile_once(run_dir, compiler)
try:
    triton.compile(Source("bad"))
except ValueError:
    pass
for text in ("one", "two", "one"):
    triton.compile(Source(text), options={"num_warps": 4})
"""


def test_kernels_are_compiled_once(tmp_path: Path) -> None:
    """Of three processes at the same time one compiles; an error leaves no lock."""
    words = [sys.executable, "-c", COMPILES, str(tmp_path), str(tmp_path)]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    ended = [(process.communicate(timeout=60)[0], process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0, 0]
    said = "".join(output for output, _ in ended).splitlines()
    assert sorted(said) == [f"compiled {text} {{'num_warps': 4}}" for text in ("one", "two")]


@pytest.mark.parametrize(("rank", "threads", "expected"), [(0, None, 8), (3, None, 1), (3, "8", 8)])
def test_one_pool(
    monkeypatch: pytest.MonkeyPatch, rank: int, threads: str | None, expected: int
) -> None:
    """The first rank has compile workers, others where the user says so."""
    config = ModuleType("config")
    config.compile_threads = 8  # type: ignore[attr-defined]
    monkeypatch.setenv("PHANTORA_RANK", str(rank))
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", threads)
    compile_in_place(config)
    assert config.compile_threads == expected


def test_one_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device has the first one's folder, unless the user has named one."""
    folders = ModuleType("folders")
    folders.triton_cache_dir = "/cache/triton/{}".format  # type: ignore[attr-defined]
    monkeypatch.setenv("TRITON_CACHE_DIR", "")  # so that it is put back to what it was
    monkeypatch.delenv("TRITON_CACHE_DIR")
    share_cache(folders)
    assert os.environ["TRITON_CACHE_DIR"] == "/cache/triton/0"
    monkeypatch.setenv("TRITON_CACHE_DIR", "/own")
    share_cache(folders)
    assert os.environ["TRITON_CACHE_DIR"] == "/own"


def test_workers_have_our_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's search path begins with our folder, the rank's own is as it was."""
    seen: list[str] = []

    class SubprocPool:
        def __init__(self, size: int) -> None:
            seen.extend(sys.path)

    module = ModuleType("subproc_pool")
    module.SubprocPool = SubprocPool  # type: ignore[attr-defined]
    before = list(sys.path)
    lock_in_workers(module)
    SubprocPool(2)
    assert seen[0].endswith("rank/site")
    assert seen[1:] == before == sys.path
    assert not is_worker()
    program = "/lib/torch/_inductor/compile_worker/__main__.py"
    monkeypatch.setattr(sys, "orig_argv", ["python", program, "--workers=2"])
    assert is_worker()
