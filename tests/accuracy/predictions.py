"""What the models give for a hundred launches of each class and some collectives: our own
predictions, no measurements.

    python tests/accuracy/predictions.py --write

writes tests/accuracy/predictions.json, which test_predictions.py compares with. Whoever changes a
model runs `nox -s accuracy` where the measurements are, looks at the pages, and then this.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sim_server.cluster import load_cluster
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.library import Library
from sim_server.collectives.selection import Selection
from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer
from sim_server.network import Gpu, Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import PER_RANK_KINDS, Operation

FILE = Path(__file__).parent / "predictions.json"
GPUS = ("a100", "h100", "b200", "l40s")
POINTS = 25
"""Of a class, on each GPU."""
CLUSTERS = (("a100", 1), ("h100", 1), ("h100", 2), ("b200", 2))
_FLOAT32 = 7
_NATIVE = "void at::native::"
Signature = dict[str, Any]


def predictions() -> dict[str, list[int]]:
    """Nanoseconds by class, in the order of GPUs and clusters."""
    found: dict[str, list[int]] = {}
    for name, make in CLASSES.items():
        for gpu in GPUS:
            timer, chance = KernelTimer(load_gpu(gpu)), random.Random(name)
            times_ns = [timer.time(make(chance)).duration_ns for _ in range(POINTS)]
            found.setdefault(name, []).extend(times_ns)
    for kind in _KINDS:
        found[kind.name.lower()] = list(_collectives(kind))
    return found


def _between(chance: random.Random, low: int, high: int) -> int:
    """A power of two and up to one more of it."""
    power = 1 << chance.randint(low, high)
    return power + chance.randrange(power)


def _product(number: str, result: str, **more: Any) -> Callable[[random.Random], Signature]:
    def make(chance: random.Random) -> Signature:
        sizes = {axis: _between(chance, 4, 13) for axis in "mnk"}
        types = {"a": number, "b": number, "c": result, "d": result, "compute": "f32"}
        return {"kind": "gemm", **sizes, **types, **more}

    return make


def _spread(chance: random.Random) -> Signature:
    """Of experts with uneven loads, some without any."""
    sizes = [int(_between(chance, 0, 11) * chance.random() ** 3) for _ in range(32)]
    made = _product("bf16", "bf16", batch=len(sizes), grouped=True)(chance)
    sizes.sort(reverse=True)
    return made | {"m": sum(sizes) // len(sizes), "along": "m", "group_sizes": sizes}


def _kernel(
    name: str, blocks: int, threads: int, scalars: dict[int, int], sizes: dict[str, int]
) -> Signature:
    launch = {"kind": "kernel", "name": name, "grid": [blocks, 1, 1], "block": [threads, 1, 1]}
    values = [[index, value] for index, value in scalars.items()]
    return {**launch, "shared_bytes": 0, "scalars": values, "sizes": sizes}


def _added(chance: random.Random) -> Signature:
    elements = _between(chance, 10, 27)
    kind = f"at::native::CUDAFunctor_add<{chance.choice(('float', 'c10::BFloat16'))}>"
    name = f"vectorized_elementwise_kernel<4, {kind}, std::array<char*, 3ul>, false>(int)"
    return _kernel(_NATIVE + name, -(-elements // 512), 128, {0: elements}, {})


def _placed(chance: random.Random) -> Signature:
    elements, number = _between(chance, 10, 27), chance.choice(("float", "c10::BFloat16"))
    functor = (
        f"at::native::BinaryFunctor<{number}, {number}, {number}, "
        "at::native::binary_internal::MulFunctor<float>>"
    )
    inner = f"gpu_kernel_impl_nocast<{functor}>(at::TensorIteratorBase&, {functor} const&)"
    name = f"elementwise_kernel<128, 4, at::native::{inner}::{{lambda(int)#1}}>(int)"
    return _kernel(_NATIVE + name, -(-elements // 512), 128, {0: elements}, {})


def _normed(chance: random.Random) -> Signature:
    rows, columns = _between(chance, 4, 15), 4 * _between(chance, 6, 12)
    number = chance.choice(("float", "c10::BFloat16"))
    if chance.random() < 0.5:
        name = f"vectorized_layer_norm_kernel<{number}, float, false>(int)"
        scalars = {0: columns}
    else:
        name = f"layer_norm_grad_input_kernel_vectorized<{number}, float, false>(int)"
        scalars = {7: columns}
    return _kernel(f"{_NATIVE}(anonymous namespace)::{name}", rows, 128, scalars, {})


def _softmaxed(chance: random.Random) -> Signature:
    rows, columns = _between(chance, 4, 14), _between(chance, 10, 16)
    kind = chance.choice(("Forward", "ForwardSmem", "Backward", "BackwardSmem"))
    name = f"(anonymous namespace)::cunn_SoftMax{kind}<4, float, float, float>(int)"
    return _kernel(_NATIVE + name, rows, min(1024, columns // 4), {3: columns}, {})


def _embedded(chance: random.Random) -> Signature:
    rows, columns = _between(chance, 4, 15), _between(chance, 6, 12)
    scalars = {3: rows, 4: 2 * columns, 5: _between(chance, 10, 16)}
    return _kernel(f"{_NATIVE}vectorized_gather_kernel<16, long>(int)", rows, 256, scalars, {})


def _optimized(chance: random.Random) -> Signature:
    elements = _between(chance, 12, 27)
    name = (
        f"{_NATIVE}(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
        "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::"
        "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*>(int)"
    )
    return _kernel(name, -(-elements // 65536), 512, {}, {"elements": elements})


def _convolved(chance: random.Random) -> Signature:
    images, channels, filters = (_between(chance, 2, 9) for _ in range(3))
    edge = chance.randint(5, 60)
    x, y = [images, channels, edge, edge], [images, filters, edge, edge]
    sizes = {"x": x, "y": y, "w": [filters, channels, 3, 3], "groups": 1}
    moved = 4 * (edge * edge * images * (channels + filters) + 9 * channels * filters)
    call = {"kind": "library", "library": "cudnn", "operation": "convolution_forward"}
    types = {"type": "f32", "compute": "f32", "layout": "contiguous"}
    return call | types | sizes | {"bytes": moved, "flops": 0}


def _attended(chance: random.Random) -> Signature:
    backward = chance.random() < 0.5
    lengths = _between(chance, 4, 13)
    sizes = {"seqlen_q": lengths, "seqlen_k": lengths, "batch": chance.randint(1, 8)}
    sizes |= {"heads": chance.randint(1, 32), "kv_heads": 1, "head_dim": 128}
    if backward:
        traits = "Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, false>"
        name = f"pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<{traits}, false, true>"
    else:
        traits = "Flash_fwd_kernel_traits<128, 128, 64, 4, false, false>"
        name = f"pytorch_flash::flash_fwd_kernel<{traits}, false, true>"
    return _kernel(f"void {name}(int)", -(-lengths // 128), 128, {}, sizes)


CLASSES: dict[str, Callable[[random.Random], Signature]] = {
    "bf16 products": _product("bf16", "bf16"),
    "f32 products": _product("f32", "f32"),
    "f8 products": _product("f8e4m3", "bf16"),
    "grouped products": _product("bf16", "bf16", batch=16, grouped=True),
    "grouped products of known sizes": _spread,
    "attention": _attended,
    "f32 convolutions": _convolved,
    "element-wise": _added,
    "element-wise, broadcast": _placed,
    "norm": _normed,
    "softmax": _softmaxed,
    "embedding": _embedded,
    "optimizer": _optimized,
}
_KINDS = (
    NcclOpKind.ALL_REDUCE,
    NcclOpKind.ALL_GATHER,
    NcclOpKind.REDUCE_SCATTER,
    NcclOpKind.ALL_TO_ALL,
)


def _collectives(kind: NcclOpKind) -> Iterator[int]:
    """Of sizes from 1 KiB to 16 GiB, alone on the network."""
    for name, nodes in CLUSTERS:
        cluster = load_cluster(name)
        gpus = [Gpu(*divmod(rank, 8)) for rank in range(8 * nodes)]
        group = Group(range(len(gpus)), gpus)
        library = Library(cluster, nodes, cluster.calibration)
        selection = Selection(Topology(cluster, nodes), library, NcclEnvironment.read({}))
        for power in range(10, 35):
            parts = len(gpus) if kind in PER_RANK_KINDS else 1
            operation = Operation(
                kind, (1 << power) // 4 // parts, _FLOAT32, tuple(range(len(gpus)))
            )
            yield round(selection.estimate_ns(operation, group))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    lines = [f'  "{name}": {json.dumps(times)}' for name, times in predictions().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
