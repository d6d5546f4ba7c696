"""Pointwise kernels of TensorIterator, fills, copies, random numbers: bytes per element from the
name's types.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sim_server.gpu import GpuProfile
from sim_server.kernels.dispatch import dispatch_cycles
from sim_server.kernels.names import number_types, split_list, type_bytes
from sim_server.kernels.work import Launch, Work, guessed

_ARRAY = re.compile(r"(?:std::array|at::detail::Array)<char\*, (\d+)")
_ITERATED = re.compile(r"gpu_kernel_impl(?:_nocast)?<")
_LAMBDA = re.compile(r"\{lambda\(([^{}]*)\)#\d+\}")
# <first argument, second, result, operation>; the unary ones keep one argument as a constant.
_FUNCTOR = re.compile(r"at::native::(Binary|AUnary|BUnary)Functor<")
_TRANSCENDENTAL = re.compile(
    r"gelu|tanh|sigmoid|silu|softplus|mish|elu|exp|log|pow|sin|cos|erf|sqrt|lerp|dropout|normal_|uniform"
)
# Copies that convert: both types are template arguments, or the result's is in the name.
_CONVERTING = re.compile(r"converting_copy_kernel_cuda<([\w:]+), ([\w:]+)>")
_NAMED_RESULT = re.compile(r"(?:b?float(8|16))_copy_kernel_cuda")
# Lambdas whose result is a flag.
_FLAGS = re.compile(r"(?:compare_scalar|logical_not|isneginf|isposinf|signbit)_kernel")
_DEFAULT_BYTES = 4
# Assumed: instructions of such a function in single precision.
_TRANSCENDENTAL_FLOPS = 25
# Longer ones, whose instructions bound them in 16 bits where memory is fast: cycles of a
# multiprocessor for an element, by what the function's name contains. Fitted to tensors of
# 8,192 x 4,096 on an H200 (docs/accuracy-operators.md).
_FUNCTION_CYCLES = {
    **{"::silu_kernel": 0.52, "::silu_backward_kernel": 0.385},
    **{"::GeluCUDAKernelImpl": 0.34, "::GeluBackwardCUDAKernelImpl": 0.46},
    **{"::mish_kernel": 0.52, "::mish_backward_kernel": 0.72},
    **{"::softplus_kernel": 0.53, "::pow_tensor_tensor_kernel": 0.83},
}
_RANDOM_FLOPS = 40
# Cycles of a multiprocessor for a number that is drawn, and what a thread takes before; share of a
# streaming kernel's rate of dropout; cycles for an element of a triangle, whose row is found by
# divisions, and what a thread's take: fitted to the launches measured on an H100
# (docs/accuracy-operators.md).
_UNIFORM_CYCLES = 0.43
_NORMAL_CYCLES = 0.6
_INTEGER_CYCLES = {False: _UNIFORM_CYCLES, True: 1.97}  # by whether it has 64 random bits
_BERNOULLI_CYCLES = 1.38
_STATE_NS = 1100
_DROPPED = 0.85
_TRIANGLE_CYCLES = 0.61
_TRIANGLE_NS = 1100
_RANDOM_LONG = "_kernel<unsigned long, "
# Of functions that PyTorch has NVRTC compile: cycles of a multiprocessor for a byte that is read or
# written, in single precision. Of the others: memory takes longer. Fitted as above.
_COMPILED_CYCLES = {
    **{"digamma": 0.254, "trigamma": 0.218, "zeta": 1.46, "i0": 0.1},
    **{"sqrt_kernel": 0.1, "exp_kernel": 0.05},  # of complex numbers
}
COMPILED = re.compile(rf"^({'|'.join(_COMPILED_CYCLES)})_(?:vectorized\d_)?kernel$")
# The type that a generator's numbers are stored in.
_STORED = re.compile(r"distribution_nullary_kernel<([\w:]+), ")
# Such accesses reach this share of a streaming kernel's rate: fitted to broadcast and cut operands
# on H100 (docs/accuracy-operators.md). Transposed ones: to copies between orders of dimensions.
_STRIDED = 0.79
_TRANSPOSED = 0.7
# Their cycles were fitted as if all had so many operands.
_FITTED_OPERANDS = 3
# Of a multiprocessor, for each sector of 32 bytes that a warp touches: fitted to copies between
# orders of dimensions in f32 on H100; those in bf16, and sums with a transposed operand, take as
# much (docs/accuracy-operators.md).
SECTOR_CYCLES = 1.85
_WARP = 32
# Before the elements of kernels with several results: fitted to a batch norm's running statistics
# on H200 (docs/accuracy-operators.md).
_SEVERAL_START_NS = 500


def pointwise(launch: Launch, gpu: GpuProfile) -> Work:
    """vectorized_, unrolled_ and legacy elementwise_kernel and their relatives."""
    text = launch.name.text
    function = _function(launch)
    array = _ARRAY.search(text)
    element_bytes = _element_bytes(launch, function, int(array[1]) if array else None)
    elements = launch.integer(0)
    sound = elements is not None
    if elements is None:
        elements = launch.blocks * launch.threads * 4
    flops = _TRANSCENDENTAL_FLOPS * elements if _TRANSCENDENTAL.search(function) else 0
    cycles = elements * next((_FUNCTION_CYCLES[it] for it in _FUNCTION_CYCLES if it in function), 0)
    costs, sizes = gpu.kernels, _function_bytes(function)
    work = Work(bytes=elements * element_bytes, flops=flops, cycles=cycles, sound=sound)
    if launch.name.family.endswith("vectorized_elementwise_kernel"):
        reads = "FillFunctor" not in function
        return replace(work, serial_ns=costs.start_ns if reads else 0)
    several = launch.name.family.endswith("_for_multi_outputs")
    work = replace(work, serial_ns=_SEVERAL_START_NS if several else costs.element_start_ns)
    if not launch.name.family.endswith("::elementwise_kernel"):
        casting_cycles = elements * len(sizes) * costs.cast_operand_cycles
        return replace(work, cycles=cycles + casting_cycles)
    placed, operand_cycles = costs.place_cycles, costs.operand_cycles
    if "gpu_kernel_impl<" in text:  # of types that are converted
        operand_cycles += costs.cast_operand_cycles
    return replace(
        work,
        bytes=_strided_bytes(launch, elements, sizes),
        efficiency=_TRANSPOSED if "copy" in text else _STRIDED,
        cycles=cycles
        + elements * max(placed + _FITTED_OPERANDS * operand_cycles, sector_cycles(launch)),
    )


def sector_cycles(launch: Launch) -> float:
    """Of a multiprocessor, for an element of a strided launch: neighbours that lie far from each
    other take a sector each. 0 where the launch does not tell.
    """
    return launch.sizes.get("warp_sectors", 0) / _WARP * SECTOR_CYCLES


_INPUTS = ("first_elements", "second_elements", "third_elements")


def _strided_bytes(launch: Launch, elements: int, sizes: list[int]) -> float:
    """What the launch moves: each element of an input once, of an expanded one fewer than there are
    of the result; caches are taken to hold them. Where it is not told how many there are (of more
    than three inputs it never is), half of the inputs, the last ones, are taken to be broadcast.
    """
    told = [launch.sizes[name] for name in _INPUTS if name in launch.sizes]
    if not told:
        *inputs, result = sizes
        return elements * (result + sum(inputs[: max(1, len(inputs) // 2)]))
    if len(told) != len(sizes) - 1:  # a function of which the name tells too little
        sizes = [sizes[0]] * len(told) + sizes[-1:]
    return elements * sizes[-1] + sum(
        count * size for count, size in zip(told, sizes, strict=False)
    )


def _function(launch: Launch) -> str:
    """The operation's type among the template arguments."""
    family, template = launch.name.family, launch.name.template
    if family.endswith("::elementwise_kernel") and len(template) > 2:
        found = _ITERATED.search(template[2])
        return _first_argument(template[2][found.end() :]) if found else template[2]
    position = 1 if family.endswith("vectorized_elementwise_kernel") else 0
    return template[position] if len(template) > position else ""


def _first_argument(text: str) -> str:
    """Of a template's list that begins with `text`, which goes on behind it."""
    first = next(split_list(text), "")
    depth = 0
    for index, letter in enumerate(first):
        depth += (letter in "<([{") - (letter in ">)]}" and first[index - 1] != "-")
        if depth < 0:
            return first[:index].strip()
    return first


def _element_bytes(launch: Launch, function: str, operands: int | None) -> float:
    """Bytes that one element of the result moves: all operands, inputs and output. An input that is
    given twice is read once.
    """
    loaded, stored = launch.sizes.get("load_bytes"), launch.sizes.get("store_bytes")
    if loaded is not None and stored is not None:
        return loaded + stored
    sizes = _function_bytes(function)
    if operands is None:
        return sum(sizes)
    moved = operands - launch.sizes.get("repeated_inputs", 0)  # x * x reads x once
    return moved * sum(sizes) / len(sizes)


def _function_bytes(function: str) -> list[int]:
    """Bytes of each tensor operand of `function`, the result last."""
    functor = _FUNCTOR.match(function)
    if functor:
        first, second, result = [
            type_bytes(part) or _DEFAULT_BYTES
            for part in list(split_list(function[functor.end() :]))[:3]
        ]
        return {
            "Binary": [first, second, result],
            "AUnary": [second, result],
            "BUnary": [first, result],
        }[functor[1]]
    if function.startswith("at::native::FillFunctor<"):
        return number_types(function)[:1] or [_DEFAULT_BYTES]
    converting = _CONVERTING.search(function)
    if converting:
        return [type_bytes(part) or _DEFAULT_BYTES for part in converting.groups()]
    lambdas = _LAMBDA.findall(function)
    if lambdas and function.endswith("}"):
        arguments = [type_bytes(part) or _DEFAULT_BYTES for part in split_list(lambdas[-1])]
        named = _NAMED_RESULT.search(function)
        result = int(named[1]) // 8 if named else (arguments or [_DEFAULT_BYTES])[0]
        if "{lambda(bool, " in function:  # where
            result = arguments[-1]
        if _FLAGS.search(function):
            result = 1
        return [*arguments, result]
    size = (number_types(function) or [_DEFAULT_BYTES])[0]
    if function.startswith("at::native::") and "::CompareFunctor<" in function:
        return [size, size, 1]
    # CUDAFunctor_add<T> and others of one type: two inputs unless the array of operands says
    # otherwise.
    return [size, size, size]


def indexed_fill(launch: Launch, gpu: GpuProfile) -> Work:
    """elementwise_kernel_with_index(elements, function, out): arange, linspace and the like write
    each element once, by a thread of its own. Its type is not in the name: arange is taken to be of
    64-bit integers.
    """
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    size = 8 if "arange" in launch.name.text else _DEFAULT_BYTES
    return Work(bytes=elements * size, cycles=dispatch_cycles(launch, gpu))


def crossed(launch: Launch, _gpu: GpuProfile) -> Work:
    """cross_kernel(vectors, out, one, other, ...): of three elements each."""
    vectors = launch.integer(0)
    if vectors is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or _DEFAULT_BYTES
    return Work(bytes=vectors * 9 * size, efficiency=_STRIDED)


def drawn(launch: Launch, _gpu: GpuProfile) -> Work:
    """kernelPointwiseApply2<function, type, type, ...>(..., elements, ...): bernoulli and poisson
    with a chance for each element; rrelu_with_noise_cuda_kernel(elements, ...), which writes its
    noise, too.
    """
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    sizes = [size for size in map(type_bytes, launch.name.template) if size]
    is_rrelu = "rrelu" in launch.name.family
    moved = 3 * (sizes or [4])[0] if is_rrelu else sum(sizes[:2]) or 2 * _DEFAULT_BYTES
    cycles = elements * _BERNOULLI_CYCLES if "bernoulli" in launch.name.text else 0
    return Work(bytes=elements * moved, flops=elements * _RANDOM_FLOPS, cycles=cycles)


def told_bytes(launch: Launch) -> int:
    """What a kernel moves, as its machine code tells, as of those that NVRTC compiles, or elements
    of types that are arguments of these; 0 where neither does.
    """
    if launch.thread_bytes:
        return launch.blocks * launch.threads * launch.thread_bytes
    loaded, stored = launch.sizes.get("load_bytes"), launch.sizes.get("store_bytes")
    return (launch.integer(0) or 0) * (loaded + stored) if loaded and stored else 0


def compiled(launch: Launch, _gpu: GpuProfile) -> Work:
    """FUNCTION[_vectorizedN]_kernel, which PyTorch has NVRTC compile. Source:
    aten/src/ATen/native/cuda/JitLoops.cuh.
    """
    moved, function = told_bytes(launch), COMPILED.search(launch.name.family)
    if not moved or function is None:
        return guessed(launch)
    return Work(bytes=moved, cycles=moved * _COMPILED_CYCLES[function[1]])


def random_fill(launch: Launch, _gpu: GpuProfile) -> Work:
    """distribution_elementwise_grid_stride_kernel and other generators: one write per element. The
    template begins with the type that is drawn in.
    """
    template = launch.name.template
    size = (number_types(template[0]) or [_DEFAULT_BYTES])[0] if template else 4
    stored = _STORED.search(launch.name.text)
    if stored:
        size = type_bytes(stored[1]) or size
    elements = launch.integer(0) or launch.blocks * launch.threads * 4
    return Work(
        bytes=elements * size,
        cycles=elements * _draw_cycles(launch.name.text),
        serial_ns=_STATE_NS,
        sound=bool(launch.scalars),
    )


def _draw_cycles(text: str) -> float:
    if "random_from_to" in text or "random_full_64" in text:
        return _INTEGER_CYCLES[_RANDOM_LONG in text]
    return _UNIFORM_CYCLES if "uniform" in text else _NORMAL_CYCLES


def dropout(launch: Launch, _gpu: GpuProfile) -> Work:
    """fused_dropout_kernel[_vec]: reads, writes and a byte of mask per element."""
    size = type_bytes(launch.name.template[0]) or _DEFAULT_BYTES
    elements = launch.integer(0) or launch.blocks * launch.threads * 4
    return Work(
        bytes=elements * (2 * size + 1),
        efficiency=_DROPPED,
        cycles=elements * _UNIFORM_CYCLES,
        serial_ns=_STATE_NS,
        sound=bool(launch.scalars),
    )


def triangle(launch: Launch, _gpu: GpuProfile) -> Work:
    """triu_tril_kernel: diagonal, elements with padding, ..."""
    size = type_bytes(launch.name.template[0]) or _DEFAULT_BYTES
    elements = launch.integer(1)
    count = elements or launch.blocks * launch.threads
    return Work(
        bytes=2 * size * count,
        cycles=count * _TRIANGLE_CYCLES,
        serial_ns=_TRIANGLE_NS,
        sound=elements is not None,
    )
