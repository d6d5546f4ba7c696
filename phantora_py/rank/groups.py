"""In a folded run, what PyTorch needs to know of ranks that are not there (docs/folding.md).

Communicators: NCCL is told how many ranks there are and not which, and the absent ones do not come
to say so. So the name of a communicator says of which ranks its group consists. The store: the rank
that keeps it waits for those only that run. Gloo: `host_groups`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from . import host_groups
from .folded_checkpoints import PLANNER, save_what_runs
from .host_groups import Fold

RANKS = "fold-ranks"
"""In the run directory, by rank who stands for it, itself if it runs."""
SEARCHES = "fold-searches"
"""There if the run is to show which groups rank 0 makes, and within which it sends."""
C10D = "torch.distributed.distributed_c10d"
_PREFIX = "phantora-group:"  # csrc/shim/nccl/communicator.cc
_NO_NAMES = (
    "this PyTorch does not give communicators names, so it cannot be told which ranks a group of a "
    "folded run consists of; use a later one (2.15 does), or run without --fold"
)
_NO_FOUNDER = (
    "rank {rank}, a witness, makes a group whose first rank, {first}, does not run in this folded "
    "run, so no rank would create its communicator. Give the program's layout with --mesh, so that "
    "phantora can choose witnesses for it, or run with --witness 0"
)


def actions(shim: ctypes.CDLL, run_dir: Path) -> dict[str, Callable[[ModuleType], None]]:
    """Modules, and what is to be done once each has been imported; nothing unless folded."""
    live = shim.ph_live_ranks()
    if not live:
        return {}
    fold = Fold([int(rank) for rank in (run_dir / RANKS).read_text(encoding="ascii").split()])
    searches = (run_dir / SEARCHES).exists()
    return {
        C10D: functools.partial(_prepare, shim, live, fold, searches),
        PLANNER: functools.partial(
            save_what_runs, fold, functools.partial(_tell_use, shim, "partial_checkpoint")
        ),
    }


def _prepare(shim: ctypes.CDLL, live: int, fold: Fold, searches: bool, c10d: ModuleType) -> None:
    """`c10d`: torch.distributed.distributed_c10d. `live`: how many ranks run; `searches`: see
    `SEARCHES`.
    """
    c_module = sys.modules["torch._C._distributed_c10d"]
    names = _Names(shim, c10d, fold)
    for name in ("ProcessGroupNCCL", "ProcessGroupNCCL2", "ProcessGroupNCCLLazy"):
        if (backend := getattr(c_module, name, None)) is not None:
            _replace(backend, "__init__", names.make)
            if hasattr(backend, "split"):
                _replace(backend, "split", names.split_backend)
    if hasattr(c_module.ProcessGroup, "split_group"):
        _replace(c_module.ProcessGroup, "split_group", names.split)
    _replace(c_module.ProcessGroup, "gather", functools.partial(_gather, shim))
    shim.ph_gathering.argtypes = [ctypes.c_void_p]
    if searches:
        sends = _Sends(shim, c10d)
        for name in ("send", "recv", "recv_anysource"):
            _replace(c_module.ProcessGroup, name, sends.tell)
    if c10d.is_gloo_available():
        tell_use = functools.partial(_tell_use, shim, "stand_ins")
        gloo = host_groups.replacement(c_module, fold, tell_use, _line)
        modules: tuple[Any, ...] = (c_module, c10d)
        for module in modules:
            module.ProcessGroupGloo = gloo
    _replace(c_module.TCPStore, "__init__", functools.partial(_await_live, live))


def _tell_use(shim: ctypes.CDLL, kind: str) -> None:
    """That values of absent ranks were made up or left out, at the line that runs."""
    told = {"kind": kind, "site": ctypes.PyDLL(None).ph_current_site()}
    shim.ph_statistics(json.dumps(told).encode())


def _replace(of: Any, name: str, by: Callable[..., Any]) -> None:
    """`by` is called with the original in front."""
    original = getattr(of, name)

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return by(original, *args, **kwargs)

    setattr(of, name, replaced)


class _Names:
    """Says of which ranks a communicator is: by its name, which one that is made later has from the
    group's options, and to the shim while the group is made.
    """

    def __init__(self, shim: ctypes.CDLL, c10d: ModuleType, fold: Fold) -> None:
        self._shim = shim
        self._c10d = c10d
        self._fold = fold
        self._device = sys.modules["torch"].device("cuda")

    def make(
        self, original: Any, group: Any, store: Any, rank: int, size: int, *more: Any, **named: Any
    ) -> None:
        """Of a backend of NCCL."""
        options = self._options(more, named)
        told = [] if options is None else options.global_ranks_in_group
        numbers = told or range(size)
        if not self._fold.is_live(numbers[0]):
            raise RuntimeError(_NO_FOUNDER.format(rank=numbers[rank], first=numbers[0]))
        ranks = _text(numbers)
        if options is not None:
            _name(options.config, ranks)
        with self._making(ranks):
            original(group, store, rank, size, *more, **named)

    def split(
        self, original: Any, parent: Any, ranks: Sequence[int], *more: Any, **named: Any
    ) -> Any:
        """Of a group, whose part has its options unless it is given others. `ranks`: places."""
        numbers = {place: rank for rank, place in self._c10d._world.pg_group_ranks[parent].items()}
        text = _text([numbers[place] for place in ranks])
        options = self._options(more, named)
        if options is None:
            options = parent._get_backend(self._device).options
        before = options.config.comm_name
        _name(options.config, text)
        try:
            with self._making(text):
                return original(parent, ranks, *more, **named)
        finally:
            options.config.comm_name = before

    def split_backend(
        self, original: Any, parent: Any, store: Any, ranks: Sequence[int], options: Any
    ) -> Any:
        """As `split`, of the backend of a group. `options`: those of the part."""
        text = _text(options.global_ranks_in_group)
        _name(options.config, text)
        with self._making(text):
            return original(parent, store, ranks, options)

    def _options(self, more: Sequence[Any], named: Mapping[str, Any]) -> Any:
        kind = self._c10d.ProcessGroupNCCL.Options
        return next((one for one in (*more, *named.values()) if isinstance(one, kind)), None)

    @contextlib.contextmanager
    def _making(self, ranks: str) -> Iterator[None]:
        self._shim.ph_making_group(ranks.encode())
        try:
            yield
        finally:
            self._shim.ph_making_group(b"")


class _Sends:
    """Tells within which groups a rank sends to others."""

    def __init__(self, shim: ctypes.CDLL, c10d: ModuleType) -> None:
        self._shim = shim
        self._c10d = c10d
        self._told: set[tuple[int, ...]] = set()

    def tell(self, original: Any, group: Any, *args: Any, **named: Any) -> Any:
        """Of a group's method that sends or receives."""
        ranks = {place: rank for rank, place in self._c10d._world.pg_group_ranks[group].items()}
        peers = [ranks[one] for one in (*args, *named.values()) if isinstance(one, int)][:1]
        pair = (ranks[group.rank()], *(peers or [ranks[len(ranks) - 1]]))
        if pair not in self._told:
            self._told.add(pair)
            told = {"kind": "group", "meeting": [], "ranks": pair}
            self._shim.ph_statistics(json.dumps(told).encode())
        return original(group, *args, **named)


def _gather(shim: ctypes.CDLL, original: Any, group: Any, *args: Any, **named: Any) -> Any:
    """`args`: outputs, then inputs. Nobody sends a root's own part, which absent ranks may have."""
    inputs = args[1] if len(args) > 1 else named.get("input_tensors")
    shim.ph_gathering(inputs[0].data_ptr() if isinstance(inputs, list) else None)
    try:
        return original(group, *args, **named)
    finally:
        shim.ph_gathering(None)


def _text(ranks: Iterable[int]) -> str:
    return ",".join(map(str, ranks))


def _name(config: Any, ranks: str) -> None:
    if not hasattr(config, "comm_name"):
        raise RuntimeError(_NO_NAMES)
    config.comm_name = _PREFIX + ranks


def _await_live(live: int, original: Any, store: Any, *args: Any, **named: Any) -> None:
    """`args`: host, port, and how many ranks come."""
    given = [_fewer(one, live) if place == 2 else one for place, one in enumerate(args)]
    if "world_size" in named:
        named["world_size"] = _fewer(named["world_size"], live)
    original(store, *given, **named)


def _fewer(size: int | None, live: int) -> int | None:
    return size if size is None else min(size, live)


def _line() -> str:
    """The innermost line of the program's own."""
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    for frame, number in traceback.walk_stack(None):
        file = frame.f_code.co_filename
        if not file.startswith((*libraries, "<")):
            return f"{file}:{number} {frame.f_code.co_name}"
    return "an unknown line"
