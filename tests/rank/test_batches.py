"""What a rank tells of batches, of ranks with other data, and of what it computes again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_run import FakeRun

import phantora_py.rank

SITE = Path(phantora_py.rank.__file__).parent / "site"
STATISTICS = 4  # ph::RecordKind
TENSOR = """
class Tensor:
    def __init__(self, dtype, *shape):
        self.dtype, self.shape = "torch." + dtype, shape
    def dim(self): return len(self.shape)
    def numel(self):
        count = 1
        for size in self.shape: count *= size
        return count
    class device: type = "cuda"
"""
LOADER = """
import torch
class Sampler:
    batch_size = 4
class _BaseDataLoaderIter:
    _dataset, _index_sampler, _auto_collation = "data", Sampler(), True
    def __init__(self, *batches): self.left = list(batches)
    def __next__(self): return self.left.pop(0)
"""
CHECKPOINT = """
class CheckpointFunction:
    @staticmethod
    def backward(context, *gradients): return context.run_function(*gradients)
class _CheckpointFrame:
    def __init__(self, recompute_fn, early_stop): self.recompute_fn = recompute_fn
"""
DISTRIBUTED = """
def get_process_group_ranks(group): return group
class Reducer:
    def _rebuild_buckets(self): return False
"""
PARALLEL = """
class Mesh:
    class mesh:
        def flatten(): return Mesh.mesh
        def tolist(): return [2, 0]
class Information: mesh = Mesh
class FSDPParamGroup:
    def __init__(self): self.mesh_info = Information
"""
MEGATRON = """
class DistributedDataParallel:
    def __init__(self): self.dp_cp_group, self.dp_group = [3, 2, 1, 0], [0, 2]
    class Mesh:
        class mesh:
            def flatten(): return DistributedDataParallel.Mesh.mesh
            def tolist(): return [4, 5]
"""
GRAPH = """
import torch
class CompiledFxGraph:
    def __init__(self, is_backward=False): self.fx_kwargs = {"is_backward": is_backward}
    def post_compile(self, inputs): pass
    def __call__(self, inputs): return len(inputs)
"""
GUARDS = """
class CompileContext:
    frame_id, frame_compile_id = None, 0
    @classmethod
    def current_compile_id(cls): return None if cls.frame_id is None else cls
"""
MODULES = {
    "torch/__init__.py": "from . import _guards\nclass version: cuda = None\n"
    "def is_grad_enabled(): return True\n" + TENSOR,
    "torch/_guards.py": GUARDS,
    "torch/utils/__init__.py": "",
    "torch/utils/checkpoint.py": CHECKPOINT,
    "torch/utils/data/__init__.py": "",
    "torch/utils/data/dataloader.py": LOADER,
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/output_code.py": GRAPH,
    "torch/distributed/__init__.py": DISTRIBUTED,
    "torch/distributed/tensor/__init__.py": "",
    "torch/distributed/tensor/experimental/__init__.py": "",
    "torch/distributed/tensor/experimental/_attention.py": "def context_parallel(mesh): pass",
    "torch/nn/__init__.py": "",
    "torch/nn/parallel/__init__.py": "",
    "torch/nn/parallel/distributed.py": MEGATRON,
    "torch/distributed/fsdp/__init__.py": "",
    "torch/distributed/fsdp/_fully_shard/__init__.py": "",
    "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py": PARALLEL,
}


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    """A run of one rank, with a package `torch` that has what the hooks look at."""
    for name, text in MODULES.items():
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return FakeRun(tmp_path)


def told(run: FakeRun, code: str) -> list[dict[str, Any]]:
    """Statistics of the rank that ran `code`, but for counts of calls."""
    paths = f"{SITE}:{run.directory / 'packages'}"
    result = run.start(sys.executable, "-c", code, PYTHONPATH=paths)
    assert result.returncode == 0, result.stderr
    statistics = [json.loads(one.payload) for one in run.records() if one.kind == STATISTICS]
    kinds = ("batch", "caveat", "data_parallel", "recomputation")
    return [one for one in statistics if one["kind"] in kinds]


def batch(source: str, key: str, samples: int, tokens: int = 0) -> dict[str, Any]:
    sizes = {"samples": samples, "tokens": tokens}
    return {"kind": "batch", "source": source, "key": key, **sizes}


def test_a_loader_s_batches_are_told(run: FakeRun) -> None:
    """Images have no tokens, whatever is beside them; ids have as many as there are, with a row for
    each sample.
    """
    code = """
from torch import Tensor
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator
images = [Tensor("float32", 4, 3, 8, 8), Tensor("int64", 4), Tensor("int64", 4, 70)]
ids = {"mask": Tensor("int64", 3, 7), "ids": Tensor("int64", 3, 7)}
batches = Iterator(images, ids)
assert [next(batches), next(batches)] == [images, ids]
"""
    assert told(run, code) == [batch("loader", "0", 4), batch("loader", "0", 3, 21)]


def test_workers_of_a_loader_are_told_once(run: FakeRun) -> None:
    """They take no virtual time; a loader without any works in the rank."""
    code = """
from torch import Tensor
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator
for workers in (0, 2):
    batches = Iterator(Tensor("float32", 4, 8), Tensor("float32", 4, 8))
    batches._num_workers = workers
    next(batches), next(batches)
"""
    found = told(run, code)
    assert [one for one in found if one["kind"] == "caveat"] == [
        {"kind": "caveat", "what": "workers", "count": 1}
    ]
    assert len(found) == 5


def test_a_data_set_that_is_made_anew_is_the_same_loader(run: FakeRun) -> None:
    """Once one of its type and as many batches is gone; beside that one it is another."""
    code = """
from torch import Tensor
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator
class Sampler(list): batch_size = 4
def made():
    class Dataset: pass
    return Dataset()
def load(dataset, length=2):
    batches = Iterator(Tensor("float32", 4, 3, 8, 8))
    batches._dataset, batches._index_sampler = dataset, Sampler(range(length))
    next(batches)
kept, listed = made(), [1, 2]
for dataset in (kept, listed, kept, listed): load(dataset)
for length in (2, 2, 3, 2): load(made(), length)
load(kept)
"""
    keys = [one["key"] for one in told(run, code)]
    assert "".join(keys) == "0101" + "2232" + "0"


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("_auto_collation = False", "Tensor('float32', 4, 3)"),
        ("_index_sampler = None", "Tensor('float32', 4, 3)"),
        ("_dataset = 1", "Tensor('float32', 60, 3)"),
        ("_dataset = 1", "['a', 'b']"),
    ],
)
def test_batches_of_another_form_are_not_guessed(run: FakeRun, setting: str, given: str) -> None:
    """What a data set gives as a whole, samplers of unknown sizes, packed samples, texts."""
    code = f"""
from torch import Tensor
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator
Iterator.{setting}
next(Iterator({given}))
"""
    assert told(run, code) == []


def test_a_graph_s_ids_are_told(run: FakeRun) -> None:
    """The largest of two dimensions; graphs have numbers of their own."""
    code = """
from torch import Tensor
from torch._inductor.output_code import CompiledFxGraph as Graph
inputs = [3, Tensor("float32", 9, 9), Tensor("int64", 1, 8), Tensor("int64", 4, 8)]
first, second, other = Graph(), Graph(), Graph()
assert [first(inputs), second(inputs), first(inputs), other(inputs[:2])] == [4, 4, 4, 2]
"""
    assert told(run, code) == [batch("graph", key, 4, 32) for key in ("0", "1", "0")]


def test_graphs_of_one_piece_of_the_program_have_one_number(run: FakeRun) -> None:
    """For whatever sizes they were compiled; its backward pass has what the forward one kept."""
    code = """
import torch, torch._inductor.output_code as inductor
context = torch._guards.CompileContext
frames = [(0, 0), (1, 0), (0, 1), (0, 0)]
graphs = [inductor.CompiledFxGraph(), *(inductor.CompiledFxGraph(back) for back in (0, 0, 1))]
for (context.frame_id, context.frame_compile_id), graph in zip(frames, graphs):
    graph.post_compile(())
for graph in graphs: graph([torch.Tensor("int64", 4, 8)])
"""
    assert told(run, code) == [batch("graph", key, 4, 32) for key in ("0", "1", "0")]


def test_graphs_that_a_piece_of_the_program_is_parted_into_have_numbers_of_their_own(
    run: FakeRun,
) -> None:
    """As for DDP's buckets: one looks ids up and another judges by labels of the same samples.
    Compiled anew they have the same numbers again.
    """
    code = """
import torch, torch._inductor.output_code as inductor
context = torch._guards.CompileContext
context.frame_id = 0
for context.frame_compile_id in (0, 1):
    graphs = [inductor.CompiledFxGraph(), inductor.CompiledFxGraph()]
    for graph in graphs: graph.post_compile(())
    for graph in graphs: graph([torch.Tensor("int64", 4, 8)])
"""
    assert told(run, code) == [batch("graph", key, 4, 32) for key in ("0", "1", "0", "1")]


def test_batches_without_gradients_are_told_until_some_have_them(run: FakeRun) -> None:
    """A program that trains nothing has batches; one that trains has those of its training."""
    code = """
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator
batches = Iterator(*([torch.Tensor("float32", rows, 3)] for rows in (1, 2, 3)))
for torch.is_grad_enabled in (lambda: False, lambda: True, lambda: False): next(batches)
from torch._inductor.output_code import CompiledFxGraph as Graph
training, judging = Graph(), Graph()
judging.fx_kwargs = {"is_inference": True}
for graph in (judging, training, judging): graph([torch.Tensor("int64", 4, 8)])
"""
    taken = [batch("loader", "0", rows) for rows in (1, 2)]
    assert told(run, code) == taken + [batch("graph", key, 4, 32) for key in ("0", "1")]


def test_ranks_with_other_data_are_told_once(run: FakeRun) -> None:
    """Every part of a model has the same."""
    code = """
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
FSDPParamGroup(), FSDPParamGroup()
"""
    assert told(run, code) == [{"kind": "data_parallel", "ranks": [0, 2], "parts": 1}]


def test_ranks_that_share_sequences_are_told(run: FakeRun) -> None:
    """Megatron's wrapper knows who has other samples, a context-parallel mesh who has parts."""
    code = """
from torch import distributed
from torch.distributed.tensor.experimental._attention import context_parallel
from torch.nn.parallel.distributed import DistributedDataParallel
context_parallel(DistributedDataParallel.Mesh)
DistributedDataParallel()
"""
    assert told(run, code) == [
        {"kind": "data_parallel", "ranks": [4, 5], "parts": 2},
        {"kind": "data_parallel", "ranks": [0, 1, 2, 3], "parts": 2},
    ]


@pytest.mark.parametrize(
    "again",
    [
        "torch.utils.checkpoint.CheckpointFunction.backward(Context(), 1)",
        "torch.utils.checkpoint._CheckpointFrame(work, True).recompute_fn(1)",
    ],
)
def test_what_is_computed_again_has_marks(run: FakeRun, again: str) -> None:
    """Around the outermost alone, and also where it ends early."""
    code = f"""
import torch.utils.checkpoint
def work(depth):
    class Context: run_function = staticmethod(work)
    if depth:
        torch.utils.checkpoint.CheckpointFunction.backward(Context(), depth - 1)
    raise ValueError
class Context: run_function = staticmethod(work)
try:
    {again}
except ValueError:
    pass
"""
    marks = [{"kind": "recomputation", "event": event} for event in ("begin", "end")]
    assert told(run, code) == marks
