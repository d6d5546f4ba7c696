"""Published measurements of memory-bound kernels, as benchmarks/memory_accuracy.py takes them from
its folder.

A row is one measured call of PyTorch: the launches that it makes and what they took together. Files
and columns: docs/accuracy-memory.md.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sim_server.kernels.work import Launch

_NATIVE = "void at::native::"
_F32, _BF16 = ("float", 4), ("c10::BFloat16", 2)
Number = tuple[str, int]
"""As kernels' names have it, and bytes."""


@dataclass(frozen=True)
class Row:
    """One measurement. `gpu`: as the collector names it."""

    collector: str
    operation: str
    gpu: str
    launches: tuple[Launch, ...]
    measured_ns: float
    shape: str

    @property
    def seen(self) -> bool:
        """Whether a fit may look at it: half of all shapes, the same ones of every GPU."""
        return zlib.crc32(f"{self.operation} {self.shape}".encode()) % 2 == 0


def read_rows(folder: Path) -> list[Row]:
    """All of them."""
    readers = (_neusight, _vidur, _liger, _served)
    return [row for reader in readers for row in reader(folder)]


def _launch(
    name: str,
    blocks: int,
    threads: int,
    scalars: dict[int, int] | None = None,
    thread_bytes: int = 0,
) -> Launch:
    signature = {"kind": "kernel", "name": name, "grid": [blocks, 1, 1], "block": [threads, 1, 1]}
    values = [[index, value] for index, value in (scalars or {}).items()]
    return Launch.from_signature({**signature, "scalars": values, "thread_bytes": thread_bytes})  # type: ignore[typeddict-item]


def _neusight(folder: Path) -> Iterator[Row]:
    """PyTorch 2.1 in f32, with the names and grids of its kernels."""
    arguments: dict[str, Callable[[int, int], dict[int, int]]] = {
        "elem": lambda rows, columns: {0: rows * columns},
        "ln": lambda _, columns: {0: columns},
        "softmax": lambda rows, columns: {2: rows, 3: columns, 4: columns},
    }
    for kind, scalars in arguments.items():
        for row in _read(folder / f"neusight_{kind}_fp32.csv.gz"):
            rows, columns = int(row["B"]), int(row["H"])
            name, values = row["Kernel Name"], scalars(rows, columns)
            if "cunn_SoftMax" in name:
                values = {2: columns}
            grid = int(float(row["Grid x"]))
            threads = int(float(row["Block x"])) * int(float(row["Block y"]))
            operation = "softmax of short rows" if "softmax_warp" in name else row["OPName"]
            yield Row(
                *("NeuSight", operation, row["Device"]),
                (_launch(name, grid, threads, values),),
                float(row["Latency"]) * 1e6,
                f"{rows}x{columns}",
            )


def _vidur(folder: Path) -> Iterator[Row]:
    """What PyTorch does there: residual additions, whole embeddings, in 16 bits."""
    for row in _read(folder / "vidur_layers_a100.csv.gz"):
        tokens, width = int(row["num_tokens"]), int(row["n_embd"])
        shape = f"{tokens}x{width}"
        added = (_elementwise(tokens * width, 3, _BF16),)
        yield _vidur_row(row, "add", added, shape)
        if row["num_tensor_parallel_workers"] == "1":
            yield _vidur_row(row, "emb", (_index_select(tokens, width, _BF16),), shape)


def _vidur_row(
    row: dict[str, str], operation: str, launches: tuple[Launch, ...], shape: str
) -> Row:
    measured_ns = float(row[f"time_stats.{operation}.median"]) * 1e6
    operation = {"add": "add", "emb": "embedding, PyTorch's before 2.7"}[operation]
    return Row("vidur", operation, "A100-80GB", launches, measured_ns, shape)


def _served(folder: Path) -> Iterator[Row]:
    """Embeddings of 4,096 columns in 16 bits on an RTX 4090."""
    for row in _read(folder / "llmservingsim_rtx4090.csv.gz"):
        if row["layer"] == "embedding":
            tokens = int(row["tokens"])
            scalars = {3: tokens, 4: 2 * 4096, 5: 128_256}
            launch = _launch(
                f"{_NATIVE}vectorized_gather_kernel<16, long>(int)", 2 * tokens, 256, scalars
            )
            time_ns = float(row["time_us"]) * 1e3
            yield Row("LLMServingSim", "embedding", "RTX 4090", (launch,), time_ns, str(tokens))


def _liger(folder: Path) -> Iterator[Row]:
    """Eager operators of Hugging Face, and Triton kernels by the bytes that they must move."""
    for row in _read(folder / "liger_a100.csv.gz"):
        config = json.loads(row["extra_benchmark_config_str"])
        key = row["kernel_name"], row["kernel_provider"], row["kernel_operation_mode"]
        size = int(row["x_value"])
        launches = _liger_launches(key, row["x_name"], size, config)
        if launches:
            operation = f"{key[0]}, {key[2]}" if key[1] == "huggingface" else f"Triton: {key[0]}"
            time_ns = float(row["y_value_50"]) * 1e6
            yield Row(
                "Liger",
                operation,
                "A100-80GB",
                tuple(launches),
                time_ns,
                " ".join(map(str, (size, *config.values()))),
            )


def _liger_launches(
    key: tuple[str, str, str], swept: str, size: int, config: dict[str, int]
) -> list[Launch]:
    """The kernels of a call; none where we do not say which."""
    found = _CHAINS.get(key)
    return found(size, {**config, swept: size}) if found else []


def _rope_sizes(sizes: dict[str, int]) -> tuple[int, int]:
    """Elements of queries and keys."""
    tokens = sizes.get("seq_len") or sizes["T"]
    queries = tokens * (sizes.get("hidden_size") or sizes["H"])
    return queries, queries * sizes["num_kv_heads"] // sizes["num_q_heads"]


def _triton(elements: int, element_bytes: int) -> Launch:
    """A kernel whose threads move eight elements each."""
    return _launch("triton_poi_fused", -(-elements // 1024), 128, None, 8 * element_bytes)


def _elementwise(elements: int, operands: int, number: Number) -> Launch:
    """Contiguous operands of one type."""
    kind = f"at::native::CUDAFunctor_add<{number[0]}>"
    name = f"vectorized_elementwise_kernel<4, {kind}, std::array<char*, {operands}ul>, false>(int)"
    return _launch(_NATIVE + name, -(-elements // 512), 128, {0: elements})


def _converted(elements: int, source: Number, result: Number) -> Launch:
    kind = f"converting_copy_kernel_cuda<{result[0]}, {source[0]}>(at::TensorIteratorBase&)"
    name = f"vectorized_elementwise_kernel<4, at::native::{kind}, std::array<char*, 2ul>, false>"
    return _launch(_NATIVE + name, -(-elements // 512), 128, {0: elements})


def _placed(elements: int, operands: int, number: Number) -> Launch:
    """With an offset calculator: a broadcast operand, or a strided one."""
    types = ", ".join([number[0]] * 3)
    functor = {3: "BinaryFunctor", 2: "BUnaryFunctor"}[operands]
    kind = f"at::native::{functor}<{types}, at::native::binary_internal::MulFunctor<float>>"
    inner = f"gpu_kernel_impl_nocast<{kind}>(at::TensorIteratorBase&, {kind} const&)"
    name = f"elementwise_kernel<128, 4, at::native::{inner}::{{lambda(int)#1}}>(int)"
    return _launch(_NATIVE + name, -(-elements // 512), 128, {0: elements})


def _index_select(rows: int, columns: int, number: Number) -> Launch:
    name = (
        f"(anonymous namespace)::indexSelectLargeIndex<{number[0]}, long, unsigned int, 2, 2, -2>"
    )
    info = f"at::cuda::detail::TensorInfo<{number[0]}, unsigned int>"
    total = rows * columns
    blocks = min(-(-total // 128), 864)
    return _launch(f"{_NATIVE}{name}({info})", blocks, 128, {3: 0, 4: 0, 5: total, 6: columns})


def _layer_norm(rows: int, columns: int) -> list[Launch]:
    name = "(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)"
    return [_launch(_NATIVE + name, rows, 128, {0: columns})]


def _layer_norm_backward(rows: int, columns: int) -> list[Launch]:
    space = f"{_NATIVE}(anonymous namespace)::"
    inputs = f"{space}layer_norm_grad_input_kernel_vectorized<float, float, false>(int)"
    weights = f"{space}GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 8u, 64u>(int)"
    return [
        _launch(inputs, rows, 128, {7: columns}),
        _launch(weights, columns, 256, {0: rows, 1: columns}),
    ]


# Rows that PyTorch keeps in a block's shared memory, 48 KB.
_KEPT_COLUMNS = 12_000


def _softmax(direction: str, rows: int, columns: int) -> Launch:
    kept = "Smem" if columns <= _KEPT_COLUMNS else ""
    name = f"(anonymous namespace)::cunn_SoftMax{direction}{kept}<4, float, float, float>(int)"
    return _launch(_NATIVE + name, rows, min(1024, columns // 4), {3: columns})


def _cross_entropy(rows: int, columns: int) -> list[Launch]:
    loss = "(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(int)"
    loss_launch = _launch(_NATIVE + loss, 1, 32, {6: rows})
    return [_softmax("Forward", rows, columns), loss_launch]


def _cross_entropy_backward(rows: int, columns: int) -> list[Launch]:
    fill = (
        "vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>"
    )
    loss = "(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<float, long>(int)"
    elements = rows * columns
    return [
        _launch(_NATIVE + fill, -(-elements // 512), 128, {0: elements}),
        _launch(_NATIVE + loss, 1, 32, {6: rows}),
        _softmax("Backward", rows, columns),
        # The benchmark keeps the gradient, so that each one is added to it.
        _elementwise(elements, 3, _F32),
    ]


def _rms_norm(rows: int, columns: int) -> list[Launch]:
    """LlamaRMSNorm: into f32, squares, mean, root, two products with broadcast factors."""
    elements = rows * columns
    mean = _launch("triton_red", -(-elements // 1024), 128, None, 8 * 4)
    few = _elementwise(rows, 2, _F32)
    return [
        _converted(elements, _BF16, _F32),
        _elementwise(elements, 2, _F32),
        *(mean, few, few),
        _placed(elements, 3, _F32),
        _converted(elements, _F32, _BF16),
        _placed(elements, 3, _BF16),
    ]


def _rope(queries: int, keys: int) -> list[Launch]:
    """apply_rotary_pos_emb: of both, two products with broadcast factors, a half negated, joined,
    added.
    """
    return [
        launch
        for elements in (queries, keys)
        for launch in (
            _placed(elements, 3, _BF16),
            _placed(elements // 2, 2, _BF16),
            _elementwise(elements, 2, _BF16),
            _placed(elements, 3, _BF16),
            _elementwise(elements, 3, _BF16),
        )
    ]


Chain = Callable[[int, dict[str, int]], list[Launch]]
_CHAINS: dict[tuple[str, str, str], Chain] = {
    ("layer_norm", "huggingface", "forward"): lambda n, of: _layer_norm(of["M"], n),
    ("layer_norm", "huggingface", "full"): lambda n, of: (
        _layer_norm(of["M"], n) + _layer_norm_backward(of["M"], n)
    ),
    ("cross_entropy", "huggingface", "forward"): lambda n, of: _cross_entropy(of["B"] * of["T"], n),
    ("cross_entropy", "huggingface", "full"): lambda n, of: (
        _cross_entropy(of["B"] * of["T"], n) + _cross_entropy_backward(of["B"] * of["T"], n)
    ),
    ("embedding", "huggingface", "forward"): lambda _, of: [
        _index_select(of["B"] * of["T"], of["D"], _F32)
    ],
    ("rms_norm", "huggingface", "forward"): lambda n, of: _rms_norm(of["M"], n),
    ("rope", "huggingface", "forward"): lambda _, of: _rope(*_rope_sizes(of)),
    # A table that the cache does not hold.
    ("embedding", "torch_compile", "forward"): lambda n, of: (
        [_triton(of["B"] * of["T"] * of["D"], 8)] if n > 16384 else []
    ),
    ("rms_norm", "liger", "forward"): lambda n, of: [_triton(of["M"] * n, 4)],
    ("layer_norm", "liger", "forward"): lambda n, of: [_triton(of["M"] * n, 8)],
    ("rope", "liger", "forward"): lambda _, of: [_triton(sum(_rope_sizes(of)), 4)],
}


def _read(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        yield from csv.DictReader(file)
