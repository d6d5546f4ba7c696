"""What a Python process does when it is a rank: hooks, markers, statistics, the exit record."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from fake_run import FakeRecord, FakeRun

import phantora_py.rank
from phantora_py.rank.markers import mark_iteration
from phantora_py.rank.runtime import KERAS_OPTIMIZERS

SITE = Path(phantora_py.rank.__file__).parent / "site"
MARKER, STATISTICS, EXIT = 3, 4, 34  # ph::RecordKind
OPTIMIZER_STEP, ITERATION, RANGE_PUSH, RANGE_POP = 1, 2, 3, 4  # ph::MarkerKind

FAKE_OPTIMIZER = """
hooks = []
register_optimizer_step_post_hook = hooks.append
class Optimizer:
    param_groups = [{"params": []}]
    def step(self):
        for hook in hooks:
            hook(self, (), {})
class AdamW(Optimizer): pass
class SGD(Optimizer): pass
"""
FAKE_BINDINGS = """
def _cuda_resetPeakMemoryStats(device):
    import torch.cuda
    torch.cuda.peaks[device] = 512
"""
FAKE_CUDA = """
asked = []
initialised = False
peaks = [4096, 0]
def is_initialized(): return initialised
def device_count(): return 2
def memory_stats_as_nested_dict(device):
    asked.append(device)
    peak = {"all": {"peak": peaks[device]}}
    return {"allocated_bytes": peak, "reserved_bytes": peak}
"""


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    """A run of one rank, with a package `torch` that has what the runtime looks at."""
    packages = tmp_path / "packages"
    files = {
        "torch/__init__.py": "from . import _C, version",
        "torch/_C.py": FAKE_BINDINGS,
        "torch/version.py": "cuda = None",
        "torch/optim/__init__.py": "",
        "torch/optim/optimizer.py": FAKE_OPTIMIZER,
        "torch/cuda.py": FAKE_CUDA,
        "torch/compiler.py": "def is_compiling(): return False\n",
    }
    for name, text in files.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    return FakeRun(tmp_path)


def execute(run: FakeRun, code: str, *path: Path) -> CompletedProcess[str]:
    """Runs Python as the launcher executes it: nothing but the environment makes it a rank."""
    entries = [SITE, *path, run.directory / "packages"]
    return run.start(sys.executable, "-c", code, PYTHONPATH=":".join(map(str, entries)))


def of_kind(run: FakeRun, kind: int) -> list[FakeRecord]:
    """Records of one kind, in order."""
    return [record for record in run.records() if record.kind == kind]


def markers(run: FakeRun) -> list[tuple[int, str]]:
    """All markers as (kind, name)."""
    return [(record.id, record.payload) for record in of_kind(run, MARKER)]


def test_program_without_torch_does_not_import_it(run: FakeRun) -> None:
    """The runtime waits for torch and never asks for it."""
    result = execute(run, "import sys; print('torch' in sys.modules)")
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr


def test_optimizer_steps_are_marked(run: FakeRun) -> None:
    """A step of any optimizer leaves its class and its number; the hook is there once torch is."""
    result = execute(
        run,
        """
import torch, torch.compiler
from torch.optim import optimizer
first, second = optimizer.AdamW(), optimizer.SGD()
for each in (first, second, first):
    each.step()
""",
    )
    assert result.returncode == 0, result.stderr
    names = ["AdamW#0", "SGD#1", "AdamW#0"]
    assert markers(run) == [(OPTIMIZER_STEP, name) for name in names]


KERAS = """
import sys
class BaseOptimizer:
    _trainable_variables = []
    def _backend_update_step(self, gradients, variables, rate): return None
own = "keras.src.backend.torch.optimizers.torch_parallel_optimizer"
if __name__ != own:
    from keras.src.backend.torch.optimizers import torch_parallel_optimizer
    class Lion(BaseOptimizer): pass
    class Adam(torch_parallel_optimizer.TorchParallelOptimizer, BaseOptimizer): pass
class TorchParallelOptimizer:
    def _backend_update_step(self, gradients, variables, rate): return None
"""


def test_steps_of_keras_are_optimizer_steps(run: FakeRun) -> None:
    """Its optimizers are none of PyTorch's, and update all parameters at once or one by one."""
    for name in KERAS_OPTIMIZERS:
        path = run.directory / "packages" / Path(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True)
        path.write_text(KERAS)
        for folder in list(path.parents)[: len(name.split(".")) - 1]:
            (folder / "__init__.py").touch()
    result = execute(
        run,
        """
import torch, torch.compiler
from keras.src.optimizers import base_optimizer as keras
adam, lion = keras.Adam(), keras.Lion()
for each in (adam, lion, adam):
    each._backend_update_step([], [], 0.1)
""",
    )
    assert result.returncode == 0, result.stderr
    names = ["Adam#0", "Lion#1", "Adam#0"]
    assert markers(run) == [(OPTIMIZER_STEP, name) for name in names]


def test_compiled_step_is_left_alone(run: FakeRun) -> None:
    """Under torch.compile the hook does nothing, so that it does not break the program's graph."""
    result = execute(
        run,
        """
import torch.compiler
from torch.optim import optimizer
torch.compiler.is_compiling = lambda: True
optimizer.AdamW().step()
""",
    )
    assert result.returncode == 0, result.stderr
    assert markers(run) == []


def test_program_may_ask_whether_a_module_is_there(run: FakeRun) -> None:
    """To ask is not to import: what is done with torch is done once the program imports it."""
    result = execute(
        run,
        """
from importlib.util import find_spec
for _ in range(2):
    assert find_spec("torch") and find_spec("torch.optim.optimizer")
import torch.compiler
from torch.optim import optimizer
optimizer.AdamW().step()
assert torch._C._cuda_resetPeakMemoryStats.__wrapped__
""",
    )
    assert result.returncode == 0, result.stderr
    assert markers(run) == [(OPTIMIZER_STEP, "AdamW#0")]


def test_module_that_failed_at_first_is_watched_again(run: FakeRun) -> None:
    """Programs try an import, set something right and import again."""
    module = run.directory / "packages" / "torch" / "optim" / "optimizer.py"
    text = module.read_text()
    module.write_text("raise ImportError('not yet')\n")
    result = execute(
        run,
        f"""
import pathlib
try:
    import torch.optim.optimizer
except ImportError:
    pathlib.Path({str(module)!r}).write_text({text!r})
import torch.compiler
import torch.optim.optimizer as optimizer
optimizer.AdamW().step()
""",
    )
    assert result.returncode == 0, result.stderr
    assert markers(run) == [(OPTIMIZER_STEP, "AdamW#0")]


def test_module_is_as_imported_without_us(run: FakeRun) -> None:
    """The watched module keeps its loader and source, and its watcher goes away."""
    result = execute(
        run,
        """
import importlib, inspect, sys
from torch.optim import optimizer
assert "exec_module" not in vars(optimizer.__spec__.loader)
assert "register" in inspect.getsource(optimizer)
watchers = [f for f in sys.meta_path if type(f).__name__ == "_ImportWatcher"]
assert watchers and not [f for f in watchers if f._name == "torch.optim.optimizer"]
importlib.reload(optimizer)
""",
    )
    assert result.returncode == 0, result.stderr


def test_peaks_of_used_devices_are_told_at_the_end(run: FakeRun) -> None:
    """The allocator's peaks, of devices that were used, in the form that docs/records.md gives."""
    result = execute(run, "import torch.cuda; torch.cuda.initialised = True")
    assert result.returncode == 0, result.stderr
    statistics = [json.loads(record.payload) for record in of_kind(run, STATISTICS)]
    assert [entry for entry in statistics if entry["kind"] == "memory"] == [
        {
            "kind": "memory",
            "device": 0,
            "allocated_peak_bytes": 4096,
            "reserved_peak_bytes": 4096,
        }
    ]


def test_peaks_that_the_program_forgets_are_told_before(run: FakeRun) -> None:
    """Programs reset them after each epoch, for their own log."""
    code = "import torch.cuda as c; c.initialised = True; torch._C._cuda_resetPeakMemoryStats(0)"
    result = execute(run, f"import torch; {code}")
    assert result.returncode == 0, result.stderr
    statistics = [json.loads(record.payload) for record in of_kind(run, STATISTICS)]
    told = [one["allocated_peak_bytes"] for one in statistics if one["kind"] == "memory"]
    assert told == [4096, 512]


def test_uninitialised_cuda_is_not_asked(run: FakeRun) -> None:
    """A question for statistics would initialise the device."""
    code = "import atexit, torch.cuda as c; atexit._run_exitfuncs(); print(c.asked)"
    assert execute(run, code).stdout == "[]\n"
    assert of_kind(run, STATISTICS) == []


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("raise SystemExit(3)", 3, ""),
        ("import sys; sys.exit('why')", 1, "why\n"),
        ("1/0", 1, "ZeroDivisionError: division by zero\n"),
    ],
)
def test_exit_record_has_the_status(run: FakeRun, code: str, status: int, error: str) -> None:
    """However the program ends, the last record is its exit status, and its output is as usual."""
    result = execute(run, code)
    assert result.returncode == status
    assert result.stderr.endswith(error)
    last = run.records()[-1]
    assert (last.kind, last.arguments[0]) == (EXIT, status)


def test_hard_exit_leaves_no_record(run: FakeRun) -> None:
    """After os._exit the agent has to notice the end itself."""
    assert execute(run, "import os; os._exit(5)").returncode == 5
    assert of_kind(run, EXIT) == []


def test_children_are_no_ranks(run: FakeRun) -> None:
    """Forked, spawned and executed children leave no record, not even their exit."""
    script = run.directory / "children.py"
    script.write_text("""
import multiprocessing, os, subprocess, sys
if __name__ == "__main__":
    if os.fork() == 0:
        sys.exit(9)
    os.wait()
    process = multiprocessing.get_context("spawn").Process(target=print, args=("spawned",))
    process.start()
    process.join()
    subprocess.run([sys.executable, "-c", "raise SystemExit(8)"])
""")
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    result = execute(run, code)
    assert (result.returncode, result.stdout) == (0, "spawned\n"), result.stderr
    assert [record.arguments[0] for record in of_kind(run, EXIT)] == [0]


def test_hidden_sitecustomize_has_its_turn(run: FakeRun, tmp_path: Path) -> None:
    """The environment's own module runs and is the one imported; our directory is gone."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("mark = 'own'\n")
    code = "import sys, sitecustomize; print(sitecustomize.mark, *sys.path)"
    mark, *path = execute(run, code, own).stdout.split()
    assert mark == "own"
    assert str(SITE) not in path


def test_missing_shim_is_said(run: FakeRun) -> None:
    """A rank without the preload says so and names the remedy."""
    result = run.start(sys.executable, "-c", "pass", PYTHONPATH=str(SITE), LD_PRELOAD="")
    assert "the shim is not loaded into this process (LD_PRELOAD=)" in result.stderr
    assert "phantora run" in result.stderr


def test_explicit_marker(run: FakeRun) -> None:
    """A program may mark its iterations; outside a run the mark does nothing."""
    mark_iteration()
    root = Path(phantora_py.rank.__file__).parents[2]
    code = "from phantora_py.rank.markers import mark_iteration as mark; mark(); mark('eval')"
    result = execute(run, code, root)
    assert result.returncode == 0, result.stderr
    assert markers(run) == [(ITERATION, "iteration"), (ITERATION, "eval")]


def test_nvtx_ranges_become_markers(run: FakeRun) -> None:
    """Through the table of functions that NVTX's headers hand to an injected library."""
    run.python("""
slots = (ctypes.c_void_p * 16)()
table = (ctypes.c_void_p * 16)(*(ctypes.addressof(slots) + 8 * i for i in range(16)))
Out, Size = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint)
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, Out, Size)
def get_table(module, out, size):
    out[0], size[0] = ctypes.addressof(table), 16
    return module == 1
class Callbacks(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("get_table", type(get_table))]
callbacks = Callbacks(16, get_table)
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
def export(ident):
    return ctypes.addressof(callbacks) if ident == 1 else None
assert shim.InitializeInjectionNvtx2(export) == 1
push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(slots[9])
pop = ctypes.CFUNCTYPE(ctypes.c_int)(slots[11])
mark = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(slots[2])
assert (push(b"outer"), push(b"inner"), pop()) == (0, 1, 1)
mark(b"instant")
assert (pop(), pop()) == (0, -1)
""")
    assert markers(run) == [
        (RANGE_PUSH, "outer"),
        (RANGE_PUSH, "inner"),
        (RANGE_POP, ""),
        (RANGE_PUSH, "instant"),
        (RANGE_POP, ""),
        (RANGE_POP, ""),
    ]
