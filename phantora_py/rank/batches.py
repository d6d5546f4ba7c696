"""What a rank takes of the training data, and with whom it shares out a batch.

Samples and tokens are told where a batch is looked up in an embedding, goes into a compiled graph
or comes from a data loader; ranks that share out batches are those of a data-parallel wrapper. The
report chooses (docs/decisions/throughput.md). The standard library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from .caveats import tell_caveat
from .operators import Kernel, replaceable
from .recomputation import Recomputation

EMBEDDING, GRAPH, LOADER = "embedding", "graph", "loader"
MOST_INPUTS = 4096
"""Of a compiled graph, that are looked at."""
_IMAGE_RANK = 4
"""Of a batch: samples, channels, height and width."""


class Batches:
    """The hooks of one rank's process."""

    def __init__(self, shim: ctypes.CDLL, recomputation: Recomputation) -> None:
        self._shim = shim
        self._recomputation = recomputation
        self.process = os.getpid()
        self._groups: set[tuple[tuple[int, ...], int]] = set()
        self._untold: list[dict[str, Any]] = []
        self._graphs = 0
        self._loads_to_train = self._looks_up_to_train = False
        """Whether some batch was loaded, or looked up, with gradients."""
        self._is_sequence_first = False
        self._operators: Any = None

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """By module, what is to be done once it has been imported."""
        fsdp, experimental = "torch.distributed.fsdp", "torch.distributed.tensor.experimental"
        return {
            "torch": self._watch_embeddings,
            "torch.nn.modules.rnn": self._watch_layout("RNNBase"),
            "torch.nn.modules.activation": self._watch_layout("MultiheadAttention"),
            "torch._inductor.output_code": self._watch_graphs,
            "torch.utils.data.dataloader": self._watch_loaders,
            "torch.nn.parallel.distributed": self._watch_wrapper("DistributedDataParallel"),
            f"{fsdp}.fully_sharded_data_parallel": self._watch_wrapper("FullyShardedDataParallel"),
            f"{fsdp}._fully_shard._fsdp_param_group": self._watch_wrapper("FSDPParamGroup"),
            "megatron.core.distributed.distributed_data_parallel": self._watch_wrapper(
                "DistributedDataParallel"
            ),
            "deepspeed.runtime.engine": self._watch_wrapper("DeepSpeedEngine"),
            f"{experimental}._context_parallel._attention": self._watch_sequences,
            f"{experimental}._attention": self._watch_sequences,
        }

    # Batches

    def _watch_embeddings(self, torch: ModuleType) -> None:
        if not torch.version.cuda:
            return
        try:
            self._operators = replaceable(torch, "CUDA")
            self._operators.replace("embedding", functools.partial(self._embedding, torch))
        except (OSError, RuntimeError):
            # A build without that kernel looks nothing up on a GPU.
            self._operators = None

    def _embedding(self, torch: Any, usual: Kernel) -> Kernel:
        def embedding(keys: Any, weight: Any, ids: Any, *options: Any, **named: Any) -> Any:
            shape = ids.shape
            if (
                len(shape) > 1
                and not self._recomputation.is_under_way
                and not torch.cuda.is_current_stream_capturing()
            ):
                table = "x".join(map(str, weight.shape))
                samples = 0 if self._is_sequence_first else shape[0]
                self._tell(EMBEDDING, table, samples, ids.numel(), torch.is_grad_enabled())
            return usual(keys, weight, ids, *options, **named)

        return embedding

    def _watch_layout(self, name: str) -> Callable[[ModuleType], None]:
        """A layer that takes sequences first, PyTorch's default, leaves it open what rows are."""

        def watch(module: ModuleType) -> None:
            layer = getattr(module, name)
            usual = layer.__init__

            @functools.wraps(usual)
            def make(made: Any, *arguments: Any, **options: Any) -> None:
                usual(made, *arguments, **options)
                self._is_sequence_first |= not made.batch_first

            layer.__init__ = make

        return watch

    def _watch_graphs(self, module: ModuleType) -> None:
        """Inductor's graphs look embeddings up in kernels of their own. What one piece of the
        program is compiled to for other sizes has its number; of several graphs that DDP parts one
        piece into, each has its own. Backward passes get what forward ones kept, tables of
        positions among it.
        """
        graph = module.CompiledFxGraph
        usual = graph.__call__
        numbers: dict[tuple[int, int], int] = {}
        parts: Counter[tuple[int, int]] = Counter()

        def number_of(compiled: Any) -> int:
            compilation = compiled.frame_id, compiled.frame_compile_id
            part = compiled.frame_id, parts[compilation]
            parts[compilation] += 1
            if part not in numbers:
                numbers[part] = self._graphs
                self._graphs += 1
            return numbers[part]

        def named(finish: Callable[..., None]) -> Callable[..., None]:
            @functools.wraps(finish)
            def finished(graph_: Any, *arguments: Any, **options: Any) -> None:
                finish(graph_, *arguments, **options)
                compiled = module.torch._guards.CompileContext.current_compile_id()
                is_backward = getattr(graph_, "fx_kwargs", {}).get("is_backward")
                if not is_backward and getattr(compiled, "frame_id", None) is not None:
                    graph_._phantora_number = number_of(compiled)

            return finished

        if hasattr(graph, "post_compile"):
            graph.post_compile = named(graph.post_compile)

        @functools.wraps(usual)
        def call(graph_: Any, inputs: Sequence[Any]) -> Any:
            options = getattr(graph_, "fx_kwargs", {})
            if options.get("is_backward"):
                return usual(graph_, inputs)
            found = max(map(_ids, inputs[:MOST_INPUTS]), default=(0, 0), key=lambda one: one[1])
            if found[1]:
                number = getattr(graph_, "_phantora_number", None)
                if number is None:
                    number = graph_._phantora_number = self._graphs
                    self._graphs += 1
                trains = not options.get("is_inference", False)
                self._tell(GRAPH, str(number), *found, trains)
            return usual(graph_, inputs)

        graph.__call__ = call

    def _watch_loaders(self, module: ModuleType) -> None:
        iterator = module._BaseDataLoaderIter
        usual = iterator.__next__
        loaders = _Loaders()
        told_of: set[int] = set()

        @functools.wraps(usual)
        def following(iterator_: Any) -> Any:
            batch = usual(iterator_)
            number = loaders.number_of(iterator_)
            samples, tokens = _batch_size(batch, _collated(iterator_))
            if samples:
                self._tell(LOADER, str(number), samples, tokens, module.torch.is_grad_enabled())
            has_workers = getattr(iterator_, "_num_workers", 0) > 0
            if has_workers and number not in told_of and os.getpid() == self.process:
                told_of.add(number)
                tell_caveat(self._shim, "workers")
            return batch

        iterator.__next__ = following

    def _tell(self, source: str, key: str, samples: int, tokens: int, trains: bool) -> None:
        """`samples`, `tokens`: 0 if they are none, or cannot be told. `trains`: gradients are
        recorded; once they are, what is taken without them is no batch of the training.
        """
        if os.getpid() != self.process:
            return
        if source == LOADER:
            self._loads_to_train |= trains
            has_trained = self._loads_to_train
        else:
            self._looks_up_to_train |= trains
            has_trained = self._looks_up_to_train
        if has_trained and not trains:
            return
        self.tell_ranks()
        told = {"kind": "batch", "source": source, "key": key}
        self._say(told | {"samples": int(samples), "tokens": int(tokens)})

    # Ranks

    def _watch_wrapper(self, name: str) -> Callable[[ModuleType], None]:
        """Looks at each object of the class for the ranks that have other data than this one."""

        def watch(module: ModuleType) -> None:
            wrapper = getattr(module, name)
            usual = wrapper.__init__

            @functools.wraps(usual)
            def make(wrapped: Any, *arguments: Any, **options: Any) -> None:
                usual(wrapped, *arguments, **options)
                self._tell_ranks(*_data_parallel_ranks(wrapped))

            wrapper.__init__ = make

        return watch

    def _watch_sequences(self, module: ModuleType) -> None:
        """Context parallelism: the ranks of a mesh have parts of the same samples."""
        usual = vars(module).get("context_parallel")
        # Earlier releases have it in one of the modules, and later ones hand it on.
        if usual is None or usual.__module__ != module.__name__:
            return

        @functools.wraps(usual)
        def context_parallel(mesh: Any, *arguments: Any, **options: Any) -> Any:
            ranks = _ranks_of_mesh(mesh)
            self._tell_ranks(ranks, len(ranks))
            return usual(mesh, *arguments, **options)

        module.context_parallel = context_parallel  # type: ignore[attr-defined]

    def _tell_ranks(self, ranks: set[int], parts: int) -> None:
        group = tuple(sorted(ranks)), parts
        if ranks and group not in self._groups and os.getpid() == self.process:
            self._groups.add(group)
            self._untold.append({"kind": "data_parallel", "ranks": group[0], "parts": parts})

    def tell_ranks(self) -> None:
        """What wrappers have said since. They are made while ranks meet outside the GPU: a record
        there would resume the rank earlier than its next call does, and its clock would show that.
        """
        for one in self._untold:
            self._say(one)
        self._untold.clear()

    def _say(self, told: dict[str, Any]) -> None:
        self._shim.ph_enter()
        self._shim.ph_statistics(json.dumps(told).encode())
        self._shim.ph_leave()


def _ids(value: Any) -> tuple[int, int]:
    """Samples and tokens of a tensor of ids with a row for each sample; none of others."""
    if str(getattr(value, "dtype", "")) not in ("torch.int64", "torch.int32"):
        return 0, 0
    shape = value.shape
    if len(shape) != 2 or value.device.type == "meta":
        return 0, 0
    return int(shape[0]), int(value.numel())


def _collated(iterator: Any) -> int | None:
    """How many samples the loader puts together; None: a batch is what the data set gives."""
    sampler = getattr(iterator, "_index_sampler", None)
    if not getattr(iterator, "_auto_collation", False):
        return None
    size = getattr(sampler, "batch_size", None)
    return size if isinstance(size, int) else None


class _Loader(NamedTuple):
    """`address`: of its data set; `alive`: gives that one, or None once it is gone; None: nobody
    knows.
    """

    address: int
    alive: Callable[[], Any] | None
    kind: tuple[str, int]


class _Loaders:
    """Numbers of loaders, by their data sets. One that is made anew for each epoch has the number
    of its like that is gone.
    """

    def __init__(self) -> None:
        self._loaders: list[_Loader] = []

    def number_of(self, iterator: Any) -> int:
        if not hasattr(iterator, "_phantora_number"):
            iterator._phantora_number = self._number(iterator)
        number: int = iterator._phantora_number
        return number

    def _number(self, iterator: Any) -> int:
        dataset, kind = iterator._dataset, _kind(iterator)
        for number, (address, alive, _) in enumerate(self._loaders):
            if address == id(dataset) and (alive is None or alive() is dataset):
                return number
        try:
            loader = _Loader(id(dataset), weakref.ref(dataset), kind)
        except TypeError:  # such as a list
            loader = _Loader(id(dataset), None, kind)
        for number, (_, alive, other) in enumerate(self._loaders):
            if other == kind and alive is not None and alive() is None:
                self._loaders[number] = loader
                return number
        self._loaders.append(loader)
        return len(self._loaders) - 1


def _kind(iterator: Any) -> tuple[str, int]:
    """Of a loader: its data set's type, which a function may have made anew, too, and length."""
    kind = type(iterator._dataset)
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        return name, len(iterator._index_sampler)
    except (NotImplementedError, TypeError):  # It has none.
        return name, 0


def _batch_size(batch: Any, most: int | None) -> tuple[int, int]:
    """Samples and tokens of a loader's batch; 0 for what cannot be told. Numbers beside images are
    classes, or places in them: the tokens of captions are looked up in an embedding.
    """
    if most is None:
        return 0, 0
    tensors = list(_tensors(batch))
    samples = next((int(one.shape[0]) for one in tensors if one.dim()), 0)
    # A batch of another form: graphs, packed sequences.
    if not 0 < samples <= most:
        return 0, 0
    if any(one.dim() >= _IMAGE_RANK for one in tensors):
        return samples, 0
    return samples, max((count for rows, count in map(_ids, tensors) if rows == samples), default=0)


def _tensors(value: Any) -> Iterator[Any]:
    """In the order of the batch."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif hasattr(value, "values") and callable(value.values) and hasattr(value, "keys"):
        for one in value.values():
            yield from _tensors(one)
    elif hasattr(value, "shape") and hasattr(value, "numel"):
        yield value


def _ranks_of_mesh(mesh: Any) -> set[int]:
    return {int(rank) for rank in mesh.mesh.flatten().tolist()}


def _data_parallel_ranks(wrapped: Any) -> tuple[set[int], int]:
    """Global ranks that a wrapper says to have other data each, and how many of them have parts of
    the same samples; no ranks if it does not say.
    """
    mesh = getattr(getattr(wrapped, "mesh_info", None), "mesh", None)
    if mesh is not None:
        return _ranks_of_mesh(mesh), 1
    # With and without those that have other parts of a sequence: Megatron's, DeepSpeed's.
    for all_name, samples_name in (
        ("dp_cp_group", "dp_group"),
        ("seq_data_parallel_group", "data_parallel_group"),
    ):
        ranks = _ranks_of_group(getattr(wrapped, all_name, None))
        if ranks:
            samples = _ranks_of_group(getattr(wrapped, samples_name, None)) or ranks
            return ranks, max(1, len(ranks) // len(samples))
    ranks = _ranks_of_group(getattr(wrapped, "process_group", None))
    replicas = _ranks_of_group(getattr(wrapped, "_inter_node_pg", None))  # FSDP's HYBRID_SHARD
    if replicas:
        everyone = set(range(len(ranks) * len(replicas)))
        return (everyone if ranks | replicas <= everyone else set()), 1
    return ranks, 1


def _ranks_of_group(group: Any) -> set[int]:
    """Empty without a group."""
    if group is None:
        return set()
    from torch import distributed  # noqa: PLC0415 - a rank may do without

    return set(distributed.get_process_group_ranks(group))
