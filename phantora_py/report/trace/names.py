"""What spans are called in a trace: as PyTorch's profiler calls them, so that its tools know them.

Holistic Trace Analysis tells communication and copies from computation by these names. Source: its
`hta/utils/utils.py` (0.5.0), and Kineto's output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from phantora_py.data import RunData
from phantora_py.report.communication import Layouts
from sim_server.log.history import COPY_SPAN, FILL_SPAN, HOST_WAIT_SPAN, KERNEL_SPAN
from sim_server.records import CopyKind, WaitKind
from sim_server.records.call_names import COPY_NAMES, WAIT_NAMES

_CALL = "cuda_runtime"


@dataclass(frozen=True, eq=False)
class Label:
    """How a span appears. `launch`: the call that issued it; empty for what the host does. The same
    object for all that appear alike.
    """

    category: str
    name: str
    launch: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    is_call: bool = False
    """A call that issued something."""
    is_communication: bool = False


class Labels:
    """The labels of a run's spans, each made once."""

    def __init__(self, data: RunData) -> None:
        self._data = data
        self._layouts = Layouts(data)
        self._known: dict[tuple[int, int], Label] = {}
        self._calls: dict[str, Label] = {}
        self._ranges: dict[tuple[str, str], Label] = {}
        self._modules: dict[tuple[str, ...], Label] = {}

    def of(self, kind: int, identifier: int) -> Label:
        """The label of a span with these fields."""
        label = self._known.get((kind, identifier))
        if label is None:
            label = self._known[kind, identifier] = self._make(kind, identifier)
        return label

    def of_call(self, name: str) -> Label:
        """The label of a call that issued something."""
        label = self._calls.get(name)
        if label is None:
            label = self._calls[name] = Label(_CALL, name, is_call=True)
        return label

    def of_range(self, category: str, name: str) -> Label:
        """The label of a range or an iteration."""
        key = (category, name)
        label = self._ranges.get(key)
        if label is None:
            label = self._ranges[key] = Label(category, name)
        return label

    def of_module(self, scope: tuple[str, ...]) -> Label:
        """The label of a module in a phase: the phase and the parts of the module's path."""
        label = self._modules.get(scope)
        if label is None:
            told = {"module": ".".join(scope[1:]), "phase": scope[0]}
            name = ".".join(scope[-2:]) if scope[-1].isdigit() else scope[-1]
            label = self._modules[scope] = Label("module", name, arguments=told)
        return label

    def _make(self, kind: int, identifier: int) -> Label:
        if kind == KERNEL_SPAN:
            timing = self._data.timings[identifier]
            known = {"class": timing["class"], "tier": timing["tier"]}
            return Label("kernel", timing["name"], "cudaLaunchKernel", known)
        if kind == COPY_SPAN:
            name = COPY_NAMES[CopyKind(identifier)]
            return Label("gpu_memcpy", name, "cudaMemcpyAsync")
        if kind == FILL_SPAN:
            return Label("gpu_memset", "Memset (Device)", "cudaMemsetAsync")
        if kind == HOST_WAIT_SPAN:
            wait = WaitKind(identifier)
            words = f"wait: {wait.name.lower().replace('_', ' ')}"
            return Label(_CALL, WAIT_NAMES.get(wait, words))
        return self._communication(self._data.operations[identifier])

    def _communication(self, operation: dict[str, Any]) -> Label:
        words = operation["kind"].title().replace("_", "")
        way = [operation[key] for key in ("algorithm", "protocol") if key in operation]
        name = "_".join(["ncclDevKernel", words, *(one.upper() for one in way)])
        arguments = {
            "Collective name": operation["kind"],
            "Group size": len(operation["members"]),
            "Process Group Name": str(operation["comm"]),
            "Process Group Ranks": self._layouts.of(operation),
            "In msg nelems": operation["count"],
            "bytes": operation["bytes"],
            "Python line": operation["site"],
        }
        return Label("kernel", name, "ncclLaunch", arguments, is_communication=True)


def origin_of(data: RunData) -> dict[str, Any]:
    """What a trace says of where it comes from."""
    return {key: data.run.get(key) for key in ("command", "cluster_name", "versions", "digest")}
