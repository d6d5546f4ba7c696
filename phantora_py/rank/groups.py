"""In a folded run, what PyTorch needs to know of ranks that are not there (docs/folding.md).

Communicators: NCCL is told how many ranks there are and not which, and the absent ones do not come
to say so. So the name of a communicator says of which ranks its group consists. The store: the rank
that keeps it waits for those only that run. Gloo joins ranks without the simulator; it would wait
for the absent ones.
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

LIVE_RANKS = "live-ranks"
"""In the run directory, the numbers of the ranks that run."""
SEARCHES = "fold-searches"
"""There if the run is to show which groups rank 0 makes, and within which it sends."""
C10D = "torch.distributed.distributed_c10d"
_PREFIX = "phantora-group:"  # csrc/shim/nccl/communicator.cc
_NO_NAMES = (
    "this PyTorch does not give communicators names, so it cannot be told which ranks a group of a "
    "folded run consists of; use a later one (2.15 does), or run without --fold"
)
_NO_GLOO = (
    "a folded run has no groups of gloo, such as {line} makes: gloo would wait for ranks for which "
    'another stands. Let the program communicate by NCCL, init_process_group("nccl"), or run '
    "without --fold"
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
    return {C10D: functools.partial(_prepare, shim, live, run_dir / LIVE_RANKS)}


def _prepare(shim: ctypes.CDLL, live: int, ranks: Path, c10d: ModuleType) -> None:
    """`c10d`: torch.distributed.distributed_c10d. `live`: how many ranks run; `ranks`: a file with
    their numbers.
    """
    c_module = sys.modules["torch._C._distributed_c10d"]
    numbers = frozenset(map(int, ranks.read_text(encoding="ascii").split()))
    names = _Names(shim, c10d, numbers)
    for name in ("ProcessGroupNCCL", "ProcessGroupNCCL2", "ProcessGroupNCCLLazy"):
        if (backend := getattr(c_module, name, None)) is not None:
            _replace(backend, "__init__", names.make)
            if hasattr(backend, "split"):
                _replace(backend, "split", names.split_backend)
    if hasattr(c_module.ProcessGroup, "split_group"):
        _replace(c_module.ProcessGroup, "split_group", names.split)
    if (ranks.parent / SEARCHES).exists():
        sends = _Sends(shim, c10d)
        for name in ("send", "recv", "recv_anysource"):
            _replace(c_module.ProcessGroup, name, sends.tell)
    if c10d.is_gloo_available():
        _replace(c_module.ProcessGroupGloo, "__init__", _refuse_gloo)
    _replace(c_module.TCPStore, "__init__", functools.partial(_await_live, live))


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

    def __init__(self, shim: ctypes.CDLL, c10d: ModuleType, live: frozenset[int]) -> None:
        self._shim = shim
        self._c10d = c10d
        self._live = live
        self._device = sys.modules["torch"].device("cuda")

    def make(
        self, original: Any, group: Any, store: Any, rank: int, size: int, *more: Any, **named: Any
    ) -> None:
        """Of a backend of NCCL."""
        options = self._options(more, named)
        told = [] if options is None else options.global_ranks_in_group
        numbers = told or range(size)
        if numbers[0] not in self._live:
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


def _refuse_gloo(original: Any, *args: Any, **named: Any) -> None:
    del original, args, named
    raise RuntimeError(_NO_GLOO.format(line=_line()))


def _line() -> str:
    """The innermost line of the program's own."""
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    for frame, number in traceback.walk_stack(None):
        file = frame.f_code.co_filename
        if not file.startswith((*libraries, "<")):
            return f"{file}:{number} {frame.f_code.co_name}"
    return "an unknown line"
