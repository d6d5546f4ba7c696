"""Makes a Python process a rank of the run and tells the run what only its framework knows.

Owns the attachment, the optimizer-step markers, the allocator's peaks and the exit record. Imports
the standard library only and never torch: a program that does without it must not pay for it.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib.abc
import importlib.machinery
import json
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from . import groups, remote_calls
from .batches import Batches
from .caveats import tell_host_step
from .checkpoints import map_checkpoints
from .counting import count_work, counts_work, find_objects_of_tensors
from .elastic_agents import ELASTIC_AGENT, tell_of_restarts
from .execution_traces import ExecutionTrace
from .expert_load import ExpertLoad
from .graph_pictures import GRAPHS, write_pictures
from .grouped_products import GroupedProducts
from .host_tensors import HostTensors
from .loader_time import LoaderTimes
from .markers import tell
from .memory_kinds import MemoryKinds
from .message_passing import refuse_alone
from .modules import Modules
from .profilers import PROFILER, prepare_profilers
from .recomputation import Recomputation
from .scratch import keep_in
from .small_operations import SmallOperations, small_operations
from .step_marks import StepMarks
from .triton_code import STATIC_LAUNCHERS, tell_compiled, tell_static
from .triton_kernels import (
    CACHE_FOLDERS,
    COMPILER,
    CONFIG,
    WORKERS,
    compile_in_place,
    compile_once,
    lock_in_workers,
    share_cache,
)
from .untuned_graphs import GRAPH_COMPILER, compile_untuned
from .watchdogs import Watchdogs

OPTIMIZER_STEP = 1  # MarkerKind in sim_server/records/schema.py
# Of torch._C, what forgets the peaks of a device.
RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")
# Modules that register operators, and the namespace of these.
LIBRARIES = {"fbgemm_gpu": "fbgemm"}
OPTIMIZER_MODULE = "torch.optim.optimizer"
# Keras' own optimizers, with PyTorch below it: modules, and classes that update parameters.
KERAS_OPTIMIZERS = {
    "keras.src.optimizers.base_optimizer": "BaseOptimizer",
    "keras.src.backend.torch.optimizers.torch_parallel_optimizer": "TorchParallelOptimizer",
}


def start() -> bool:
    """Attaches this process as the rank that its environment names; its clocks become virtual.

    False in a child of the rank, which sees its clock and drives nothing.
    Raises: RuntimeError if the process does not run under the shim.
    """
    shim = _load_shim()
    run_dir, rank = os.environb[b"PHANTORA_RUN_DIR"], int(os.environ["PHANTORA_RANK"])
    if not shim.ph_attach(run_dir, rank):
        return False
    # With the GIL held, so that the shim can check how it reads frames (python/python_layout.cc).
    ctypes.PyDLL(None).ph_write_whereabouts()
    _hook(shim)
    _count(shim)
    return True


def prepare() -> None:
    """Makes ready a process of a program that starts its own ranks: if it comes to use a GPU, then
    the shim attaches it (csrc/shim/calls/call.cc).
    """
    ctypes.PyDLL(None).ph_check_frames()
    shim = _load_shim()
    rank_runtime = _hook(shim)
    _count(shim)
    os.register_at_fork(after_in_child=rank_runtime.move_to_child)
    after_import("multiprocessing.util", rank_runtime.end_with_child)


def _count(shim: ctypes.CDLL) -> None:
    """Has the work of this process counted, if the run asked for it."""
    if counts_work(shim):
        count_work()
        after_import("torch", find_objects_of_tensors)


def _hook(shim: ctypes.CDLL) -> _Runtime:
    """Has the modules of the program tell the run what they do."""
    rank_runtime = _Runtime(shim, Path(os.fsdecode(os.environb[b"PHANTORA_RUN_DIR"])))
    after_import(OPTIMIZER_MODULE, rank_runtime.watch_optimizers)
    for module in KERAS_OPTIMIZERS:
        after_import(module, rank_runtime.watch_keras)
    after_import("torch", rank_runtime.replace_kernels)
    after_import(PROFILER, functools.partial(prepare_profilers, shim))
    for name, action in rank_runtime.watch_actions():
        after_import(name, action)
    after_import("multiprocessing.util", functools.partial(keep_in, rank_runtime.run_dir))
    share_kernels()
    after_import(COMPILER, functools.partial(tell_compiled, shim))
    for launcher in STATIC_LAUNCHERS:
        after_import(launcher, functools.partial(tell_static, shim))
    after_import(CACHE_FOLDERS, share_cache)
    after_import(CONFIG, compile_in_place)
    after_import(WORKERS, lock_in_workers)
    after_import(GRAPH_COMPILER, functools.partial(compile_untuned, shim))
    after_import(GRAPHS, functools.partial(write_pictures, shim))
    after_import("mpi4py.MPI", refuse_alone)
    after_import(ELASTIC_AGENT, tell_of_restarts)
    for name, action in {
        **remote_calls.actions(),
        **groups.actions(shim, rank_runtime.run_dir),
    }.items():
        after_import(name, action)
    atexit.register(rank_runtime.end)
    return rank_runtime


def share_kernels() -> None:
    """What Triton compiles in this process is compiled by no other of the run at that time."""
    run_dir = Path(os.fsdecode(os.environb[b"PHANTORA_RUN_DIR"]))
    after_import(COMPILER, functools.partial(compile_once, run_dir))


def follow() -> bool:
    """Makes this process, a helper that the rank started, see the rank's clock.

    False if the rank has no clock yet.
    """
    run_dir, rank = os.environb[b"PHANTORA_RUN_DIR"], int(os.environ["PHANTORA_RANK"])
    return bool(_load_shim().ph_follow(run_dir, rank))


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Calls `action` with module `name` once it is imported: at once, or whenever that happens."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
    else:
        sys.meta_path.insert(0, _ImportWatcher(name, action))


def _load_shim() -> ctypes.CDLL:
    shim = ctypes.CDLL(None)
    if not hasattr(shim, "ph_attach"):
        raise RuntimeError(
            "PHANTORA_RANK is set but the shim is not loaded into this process "
            f"(LD_PRELOAD={os.environ.get('LD_PRELOAD', '')}). "
            "Start the program with `phantora run`."
        )
    shim.ph_note_runtime()
    return shim


class _Runtime:
    """The hooks of one attached process."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path) -> None:
        self._shim = shim
        self.run_dir = run_dir
        self._process = os.getpid()
        self._forked = False
        recomputation = Recomputation(shim)
        self._batches = Batches(shim, recomputation)
        self._trace = ExecutionTrace(shim, run_dir)
        self._modules = Modules(shim, run_dir)
        self._watches = (
            *(StepMarks(shim, run_dir), recomputation, self._batches),
            *(MemoryKinds(shim, run_dir), self._modules, LoaderTimes(shim, run_dir)),
        )
        self._ordinals: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._optimizers = 0
        self._last_statistics: dict[int, str] = {}
        self._host_tensors: HostTensors | None = None
        self._small_operations: SmallOperations | None = None
        self._grouped_products: GroupedProducts | None = None

    def watch_actions(self) -> Iterator[tuple[str, Callable[[ModuleType], None]]]:
        """Modules, and what is to be done once each has been imported."""
        for watch in self._watches:
            yield from watch.actions().items()
        yield from self._trace.actions().items()
        yield from Watchdogs(self._shim).actions().items()

    def move_to_child(self) -> None:
        """The hooks belong to this forked child, unless it is that of a rank."""
        if self._shim.ph_has_clock():
            return
        self._forked = True
        self._process = os.getpid()
        for watch in self._watches:
            watch.process = self._process
        if self._host_tensors is not None:
            self._host_tensors.process = self._process

    def end_with_child(self, util: ModuleType) -> None:
        """A forked child of multiprocessing ends without Python's own exit handlers. `util`:
        multiprocessing.util, which has some for it.
        """

        def end() -> None:
            if self._shim.ph_is_rank():
                self.end()
                error = sys.exc_info()[1]
                ended_well = error is None or (isinstance(error, SystemExit) and not error.code)
                self._shim.ph_exit(ctypes.c_int64(0 if ended_well else 1))

        def prepare_child(own: _Runtime) -> None:
            if own._forked:
                util.Finalize(None, end, exitpriority=-1000)  # the last

        util.register_after_fork(self, prepare_child)

    def watch_optimizers(self, module: ModuleType) -> None:
        """`module`: torch.optim.optimizer, with PyTorch's public hook for all optimizers."""
        torch = sys.modules["torch"]

        def after_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
            # A compiled step traces the hook; not to break the graph, it leaves no mark there.
            if torch.compiler.is_compiling():
                return
            self._own(tell_host_step, self._shim, optimizer)
            if not _is_nested(sys._getframe(1)):
                self.after_step(optimizer)

        module.register_optimizer_step_post_hook(after_step)

    def watch_keras(self, module: ModuleType) -> None:
        """`module`: of KERAS_OPTIMIZERS."""
        owner = getattr(module, KERAS_OPTIMIZERS[module.__name__])
        usual = owner._backend_update_step

        @functools.wraps(usual)
        def update(optimizer: Any, *args: Any, **options: Any) -> None:
            usual(optimizer, *args, **options)
            if "torch" in sys.modules and not sys.modules["torch"].compiler.is_compiling():
                self.after_step(optimizer)

        owner._backend_update_step = update

    def replace_kernels(self, torch: ModuleType) -> None:
        """From now on some of PyTorch's kernels do less than they would, and some do more."""
        self._trace.begin(torch)
        for name in RESETS:
            if reset := getattr(getattr(torch, "_C", None), name, None):
                setattr(torch._C, name, self._told_before(reset))
        if self._shim.ph_lazy_host_tensors():
            self.leave_host_tensors(torch)
        if torch.version.cuda:  # Builds for the CPU have no such kernels.
            if not self._shim.ph_samples_host():  # Python for our kernels would be timed with it
                load = ExpertLoad.read(self.run_dir)
                self._small_operations = small_operations(torch)
                self._small_operations.attach(self._shim, load)
            self._grouped_products = GroupedProducts(torch, self._shim)
            for module, namespace in LIBRARIES.items():
                extend = functools.partial(self._extend, namespace)
                after_import(module, extend)

    def _told_before(self, reset: Callable[[int], None]) -> Callable[[int], None]:
        """Peaks that the program forgets are told before."""

        @functools.wraps(reset)
        def told(device: int) -> None:
            self._tell_memory([device])
            reset(device)

        return told

    def _extend(self, namespace: str, _module: ModuleType) -> None:
        """A library's operators have been registered."""
        if self._small_operations is not None:
            self._small_operations.extend(namespace)

    def leave_host_tensors(self, torch: ModuleType) -> None:
        """Large host tensors that are only filled stay untouched memory from now on."""
        try:
            self._host_tensors = HostTensors(torch, self._shim)
        except OSError as error:
            print(
                f"phantora: large host tensors are filled, as with --host-tensors real: {error}",
                file=sys.stderr,
            )
            return
        map_checkpoints(torch, self._host_tensors)

    def after_step(self, optimizer: Any) -> None:
        """Marks the step of one optimizer: "AdamW#0" is the first optimizer that ever stepped."""
        self._own(self._mark_step, optimizer)

    def _own(self, act: Callable[..., None], *arguments: Any) -> None:
        """None of the program's: it takes no virtual time. In a child nothing."""
        if os.getpid() != self._process:
            return
        self._shim.ph_enter()
        try:
            act(*arguments)
        finally:
            self._shim.ph_leave()

    def _mark_step(self, optimizer: Any) -> None:
        ordinal = self._ordinals.get(optimizer)
        if ordinal is None:
            ordinal = self._ordinals[optimizer] = self._optimizers
            self._optimizers += 1
        name = f"{type(optimizer).__name__}#{ordinal}"
        tell(OPTIMIZER_STEP, name)
        self._shim.ph_marker(OPTIMIZER_STEP, name.encode())
        if self._host_tensors is not None:
            self._host_tensors.look()
        self._batches.tell_ranks()
        self._trace.tell_groups()
        self._tell_memory(_devices_of(optimizer))

    def end(self) -> None:
        """At the interpreter's end: the last peaks; the exit record once the status is known."""
        if os.getpid() != self._process:
            return
        self._trace.end()
        self._batches.tell_ranks()
        cuda = _initialised_cuda()
        if cuda is not None:
            self._tell_memory(range(cuda.device_count()))
            self._modules.end()
        if self._host_tensors is not None:
            self._shim.ph_statistics(json.dumps(self._host_tensors.statistics()).encode())
        if self._small_operations is not None:
            self._shim.ph_statistics(json.dumps(self._small_operations.statistics()).encode())
        self._shim.ph_end_other_walks()
        self._shim.ph_exit_at_end()

    def _tell_memory(self, devices: Sequence[int]) -> None:
        cuda = _initialised_cuda()
        if cuda is None:
            return
        for device in devices:
            stats = cuda.memory_stats_as_nested_dict(device)
            peaks = {
                "kind": "memory",
                "device": self._shim.ph_node_gpu(device),
                "allocated_peak_bytes": stats["allocated_bytes"]["all"]["peak"],
                "reserved_peak_bytes": stats["reserved_bytes"]["all"]["peak"],
            }
            text = json.dumps(peaks)
            # A device that was never used, or nothing new: peaks move seldom.
            if peaks["reserved_peak_bytes"] == 0 or self._last_statistics.get(device) == text:
                continue
            self._last_statistics[device] = text
            self._shim.ph_statistics(text.encode())


def _initialised_cuda() -> Any:
    """torch.cuda if the program has initialised it, or None; asking must not initialise it."""
    cuda = sys.modules.get("torch.cuda")
    return cuda if cuda is not None and cuda.is_initialized() else None


def _is_nested(call: FrameType) -> bool:
    """Whether this call of a function, PyTorch's wrapper of a step, is within another of it."""
    outer = call.f_back
    while outer is not None and outer.f_code is not call.f_code:
        outer = outer.f_back
    return outer is not None


def _devices_of(optimizer: Any) -> list[int]:
    """CUDA devices of the optimizer's parameters, found without a call to the device."""
    if hasattr(optimizer, "param_groups"):
        parameters = [p for group in optimizer.param_groups for p in group["params"][:1]]
    else:  # Keras'
        parameters = [variable.value for variable in optimizer._trainable_variables[:1]]
    return sorted({p.device.index for p in parameters if p.device.type == "cuda"})


class _ImportWatcher(importlib.abc.MetaPathFinder):
    """Finds nothing itself: to what others find it adds an action after the execution.

    It stays until that has happened: a program may only ask whether there is such a module
    (importlib.util.find_spec), or fail to import it at first.
    """

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if fullname != self._name:
            return None
        # Those before this one have been asked.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                self._extend(spec.loader)
                return spec
        return None

    def _extend(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            # The class's own method is back, for a reload; another watcher may have seen to it.
            vars(loader).pop("exec_module", None)
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._action(module)

        loader.exec_module = execute_and_act
