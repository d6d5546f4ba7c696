"""What nodes of communication tell: groups, batches, waits. Steps of several optimizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phantora_py.replay.build import build, coverage
from phantora_py.replay.observed import read_trace
from phantora_py.replay.operators import added, parsed, resolved

pytestmark = pytest.mark.torch

SEND = (
    "c10d::send(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup process_group, int dst,"
    " int tag) -> __torch__.torch.classes.c10d.Work"
)
MULTIPLY = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
Row = tuple[Any, str]
"""A value and its type."""


def tensor(storage: int, device: str = "cuda:0") -> Row:
    return [storage, storage, 0, 4, 4, device], "Tensor(float)"


class Trace:
    """Nodes as the observer writes them."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []

    def add(
        self, name: str, *inputs: Row, parent: int = 1, outs: tuple[Row, ...] = (), **told: Any
    ) -> int:
        number = len(self.nodes) + 2

        def side(rows: tuple[Row, ...]) -> dict[str, Any]:
            return {
                "values": [value for value, _ in rows],
                "types": [kind for _, kind in rows],
                "shapes": [_like(value, kind, [4]) for value, kind in rows],
                "strides": [_like(value, kind, [1]) for value, kind in rows],
            }

        attrs = [{"name": one, "type": "", "value": value} for one, value in told.items()]
        self.nodes.append(
            {
                **{"id": number, "name": name, "ctrl_deps": parent, "attrs": attrs},
                **{"inputs": side(inputs), "outputs": side(outs)},
            }
        )
        return number

    def send(self, storage: int, device: str = "cuda:0") -> int:
        value, kind = tensor(storage, device)
        rows: list[Row] = [([value], f"GenericList[{kind}]"), ("<Object>", "Object")]
        return self.add("c10d::send", *rows, (1, "Int"), (0, "Int"), op_schema=SEND, tid=1)

    def told(self, what: str, sequence: int, parent: int = 1, group: str = "0") -> int:
        number: Row = ([sequence, False], "Tuple[Int,Bool]")
        told: dict[str, Any] = {"collective_name": what, "pg_name": group, "tid": 1}
        return self.add("record_param_comms", ([], "GenericList[]"), number, parent=parent, **told)

    def multiply(self, storage: int, parent: int = 1) -> int:
        rows = tensor(storage), tensor(storage)
        outs = (tensor(storage + 1),)
        told: dict[str, Any] = {"op_schema": MULTIPLY, "tid": 1}
        return self.add("aten::mul", *rows, parent=parent, outs=outs, **told)

    def groups(self, **groups: list[int]) -> int:
        rows = [{"pg_name": name, "ranks": ranks} for name, ranks in groups.items()]
        return self.add("## process_group:init ##", (json.dumps(rows), "String"))

    def write(self, folder: Path, rank: int) -> None:
        told = {"schema": "1.1.1-chakra.0.0.4", "nodes": self.nodes, "finish_ts": 1}
        (folder / f"rank-{rank}.json").write_text(json.dumps(told))


def _like(value: Any, kind: str, sizes: list[int]) -> Any:
    if kind.startswith("Tensor("):
        return sizes
    if kind.startswith(("GenericList", "Tuple")):
        return [sizes if isinstance(one, list) else [] for one in value]
    return []


def built(folder: Path, *traces: Trace) -> list[list[dict[str, Any]]]:
    for rank, trace in enumerate(traces):
        trace.write(folder, rank)
    return [rank["events"] for rank in build(folder).ranks]


def test_transfers_of_a_batch_have_the_group_of_its_end(tmp_path: Path) -> None:
    trace = Trace()
    trace.groups(**{"0": [0, 1], "pair": [0, 1], "one": [0]})
    trace.send(10)
    trace.send(20)
    trace.told("batch_op_issue", 3, group="pair")
    trace.told("wait", 3, group="pair")
    trace.send(30)
    trace.told("batch_op_issue", 3, group="pair")
    trace.multiply(40)
    trace.told("wait", 3, group="pair")
    [first, second, third, _], _ = built(tmp_path, trace, trace)
    assert [one["group"] for one in (first, second, third)] == ["pair"] * 3
    assert [one.get("batch") for one in (first, second, third)] == [2, None, 1]
    assert [one["waits"] for one in (first, second, third)] == [False, True, False]


def test_a_call_whose_group_is_not_told_is_a_proxy_that_is_listed(tmp_path: Path) -> None:
    """PyTorch tells none for gloo. With one group of all ranks there is no doubt."""
    trace = Trace()
    trace.groups(**{"0": [0, 1]})
    trace.send(10, "cpu")
    assert built(tmp_path, trace, trace)[0][0]["group"] == "0"
    trace.groups(**{"0": [0, 1], "one": [0]})
    [[event], _] = built(tmp_path, trace, trace)
    assert event["do"] == "proxy"
    assert coverage(build(tmp_path))[1] == {"c10d::send (no process group told)": 2}


def test_steps_of_two_optimizers_end_one_iteration(tmp_path: Path) -> None:
    """In traces without marks: the last one after each backward pass does."""
    trace = Trace()
    for _ in range(2):
        trace.multiply(10)
        trace.multiply(20, parent=trace.add("autograd::engine::evaluate_function: MulBackward0"))
        for name in ("A.step", "B.step"):
            trace.multiply(30, parent=trace.add(f"Optimizer.step#{name}"))
    events = built(tmp_path, trace)[0]
    told = [event.get("name", event["do"]) for event in events]
    assert told == ["op", "op", "op", "op", "B.step"] * 2


def test_marks_of_the_program_are_the_iterations(tmp_path: Path) -> None:
    trace = Trace()
    trace.multiply(10)
    trace.add("## phantora:mark ##", (json.dumps({"kind": 6, "name": ""}), "String"))
    trace.multiply(30, parent=trace.add("Optimizer.step#A.step"))
    told = [(event["do"], event.get("kind")) for event in built(tmp_path, trace)[0]]
    assert told == [("op", None), ("mark", 6), ("op", None)]


def test_files_of_the_first_schema(tmp_path: Path) -> None:
    """Attributes are beside the name, and nothing tells strides."""
    node = {
        **{"name": "aten::t", "id": 3, "parent": 2, "tid": 1, "op_schema": "aten::t(Tensor self)"},
        **{"inputs": [[1, 6, 0, 6, 4, "cuda:0"]], "input_shapes": [[2, 3]]},
        **{"input_types": ["Tensor(float)"], "outputs": [], "output_shapes": []},
        "output_types": [],
    }
    path = tmp_path / "rank-0.json"
    path.write_text(json.dumps({"schema": "1.0.1", "nodes": [node], "finish_ts": 1}))
    trace = read_trace(path)
    assert not trace.has_strides
    assert trace.nodes[3].schema == "aten::t(Tensor self)"
    assert trace.nodes[3].inputs[0].strides == (3, 1)


@pytest.mark.parametrize(
    "schema",
    [
        "c10d::allreduce_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup "
        "process_group, __torch__.torch.classes.c10d.ReduceOp reduce_op, int timeout) -> "
        "(Tensor[], __torch__.torch.classes.c10d.Work)",
        "c10d::broadcast_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup "
        "process_group, int root_rank, int root_tensor, bool asyncOp=True, int timeout=-1) -> "
        "(Tensor[], __torch__.torch.classes.c10d.Work)",
    ],
)
def test_communication_of_older_pytorch_is_called(schema: str) -> None:
    """Arguments that it lacked have a value, and renamed ones are known."""
    operator = resolved(schema)
    assert operator is not None
    given = {one.name for one in parsed(schema).arguments} | (
        added(operator, parsed(schema)) or {}
    ).keys()
    needed = {one.name for one in operator._schema.arguments if not one.has_default_value()}
    assert needed <= given


def test_an_operator_that_needs_what_a_trace_does_not_tell_is_not_called() -> None:
    assert resolved("aten::mm(Tensor self) -> Tensor") is None
