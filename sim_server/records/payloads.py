"""What ranks say in JSON: the members of each payload, in the order in which they are written.

The one schema of payloads. The structures that the shim fills, csrc/protocol/payloads.h, and the
page docs/records.md are made from it (tools/payload_schema.py), `announced` checks by it, and the
models take their types from it. What ranks' Python tells is in `python_statistics`. It holds no
behaviour.

A payload is of the first class of its table whose `Literal` members it has. A member that is added
to a class is optional, in its base: recorded runs and timing caches lack it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

COUNT: Final = "a count"
Count = Annotated[int, COUNT]
"""A size, a number of times or a time: not negative."""
Flag = Annotated[int, "1: yes, 0: no"]
Triple = tuple[int, int, int]
NumberType = Annotated[
    str, "f64, f32, tf32, f16, bf16, f8e4m3, f8e5m2, f4e2m1, i8, u8, i32, c64 or c128; ?: another"
]


class _KernelMore(TypedDict, total=False):
    sizes: Annotated[
        dict[str, int], "named sizes from structures (csrc/shim/kernels/kernel_structures.cc)"
    ]
    module: Annotated[str, "of a kernel that is compiled at run time: hash of its instructions"]
    thread_bytes: Annotated[
        int, "likewise: what a thread loads and stores, where its machine code tells"
    ]
    block_bytes: Annotated[
        str,
        "likewise: what a block loads and stores, where Triton's own code tells: an expression of"
        " arguments (p and their parameter), the block's index (x, y, z) and the grid (nx, ny, nz)",
    ]
    block_again: Annotated[str, "likewise: of these what a loop loads where one before it has"]
    block_instructions: Annotated[
        str, "likewise: instructions for elements in floating point, of all its threads"
    ]
    block_flops: Annotated[
        str, "likewise: of products in 16 bits, and of as many as take as long as those in others"
    ]
    host_bytes: Annotated[int, "of managed memory that it may use and that stays on the host"]


class Kernel(_KernelMore):
    """A launch of a kernel that the program brings, by CUDA's runtime or driver API."""

    kind: Literal["kernel"]
    name: Annotated[str, "mangled; plain for one that is compiled at run time"]
    grid: Annotated[Triple, "blocks"]
    block: Annotated[Triple, "threads"]
    shared_bytes: Annotated[int, "dynamic shared memory of a block"]
    scalars: Annotated[
        list[tuple[int, int]], "integer arguments in order: index of the parameter, value"
    ]


class _GemmMore(TypedDict, total=False):
    orders: Annotated[
        tuple[int, int, int, int], "cublasLtOrder_t of A, B, C and D, unless all are column-major"
    ]
    strides: Annotated[Triple, "elements from one A, B and D of a strided batch to the next"]
    pointer_array: Annotated[bool, "the batch is an array of pointers"]
    scale_a: Annotated[str, "how A is scaled: none, tensor, outer, vec16_ue4m3, vec32_ue8m0, ..."]
    scale_b: Annotated[str, "how B is"]


class Gemm(_GemmMore):
    """A matrix product of cuBLAS or cuBLASLt, column-major as the library sees it."""

    kind: Literal["gemm"]
    library: Annotated[str, "cublas or cublasLt"]
    m: Annotated[int, "rows of D"]
    n: Annotated[int, "columns of D"]
    k: Annotated[int, "length of the sums"]
    batch: Annotated[int, "products"]
    transa: Annotated[str, "N, T or C"]
    transb: Annotated[str, "likewise"]
    lda: Annotated[int, "leading dimension of A"]
    ldb: Annotated[int, "of B"]
    ldc: Annotated[int, "of D"]
    a: Annotated[NumberType, "of A"]
    b: Annotated[NumberType, "of B"]
    c: Annotated[NumberType, "of C"]
    d: Annotated[NumberType, "of D"]
    compute: Annotated[str, "f16, f32, tf32, f64, i32, f32_fast_f16, ...: the arithmetic"]
    epilogue: Annotated[str, "none, bias, relu, gelu, gelu_aux_bias, dgelu_bgrad, ..."]
    beta: Annotated[bool, "C is read"]


class _GroupedGemmMore(TypedDict, total=False):
    along: Annotated[Literal["m", "n", "k"], "what the groups differ in, if their sizes are known"]
    group_sizes: Annotated[list[int], "their sizes there, the largest first"]


class GroupedGemm(_GroupedGemmMore):
    """PyTorch's grouped product, row-major; its groups are of equal size if nobody knows theirs."""

    kind: Literal["gemm"]
    library: Literal["cutlass"]
    grouped: Literal[True]
    m: int
    n: int
    k: int
    batch: Annotated[int, "groups"]
    transa: str
    transb: str
    a: NumberType
    b: NumberType
    c: NumberType
    d: NumberType
    compute: str
    epilogue: str
    beta: bool


class _AttentionMore(TypedDict, total=False):
    total_q: Annotated[
        int, "queries in all, of sequences of unequal length: `seqlen_q` is the longest"
    ]


class Attention(_AttentionMore):
    """cuDNN's fused attention, whose mask starts in the upper left corner. Backward: with the row
    sums before and the conversion of dQ after.
    """

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal["attention_forward", "attention_backward"]
    type: NumberType
    batch: int
    heads: int
    kv_heads: Annotated[int, "heads of K and V"]
    seqlen_q: Annotated[int, "queries"]
    seqlen_k: Annotated[int, "keys"]
    head_dim: Annotated[int, "of Q and K"]
    head_dim_v: Annotated[int, "of V"]
    causal: Flag
    dropout: Flag
    bias: Annotated[Flag, "a tensor is added to the scores"]
    bytes: Annotated[int, "what the operands in memory hold, each once"]


class _ConvolutionMore(TypedDict, total=False):
    padding: Annotated[list[int], "one for each spatial dimension, as the next two"]
    stride: list[int]
    dilation: list[int]


class Convolution(_ConvolutionMore):
    """A convolution of cuDNN, alone or fused with what follows. x, w and y are its input, filters
    and output, or the gradients in their place.
    """

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal["convolution_forward", "convolution_dgrad", "convolution_wgrad"]
    type: NumberType
    groups: int
    flops: Annotated[int, "of the matrix product that it is equivalent to"]
    bytes: Annotated[int, "what the operands in memory hold, each once"]
    compute: Annotated[str, "f32, tf32 or f64"]
    layout: Annotated[str, "of x: channels_last, contiguous or strided"]
    x: Annotated[list[int], "n, c, and the spatial sizes"]
    w: Annotated[list[int], "k, c / groups, and the window"]
    y: Annotated[list[int], "n, k, and the spatial sizes"]


class BatchNorm(TypedDict):
    """A batch normalisation of cuDNN."""

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal[
        "batch_norm_forward_training", "batch_norm_forward_inference", "batch_norm_backward"
    ]
    type: NumberType
    batch: int
    channels: int
    pixels: Annotated[int, "of a channel"]
    bytes: Annotated[int, "of the operands that are as large as the input"]
    layout: Annotated[str, "of x: channels_last, contiguous or strided; not in older data files"]


class Recurrent(TypedDict):
    """A pass over a recurrent network of cuDNN."""

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal[
        "lstm_forward",
        "lstm_backward_data",
        "lstm_backward_weights",
        "gru_forward",
        "gru_backward_data",
        "gru_backward_weights",
        "rnn_tanh_forward",
        "rnn_tanh_backward_data",
        "rnn_tanh_backward_weights",
        "rnn_relu_forward",
        "rnn_relu_backward_data",
        "rnn_relu_backward_weights",
    ]
    type: NumberType
    layers: int
    directions: int
    seqlen: Annotated[int, "steps of the longest sequence"]
    batch: Annotated[int, "sequences"]
    tokens: Annotated[int, "steps of all sequences"]
    input: Annotated[int, "width"]
    hidden: Annotated[int, "width"]
    projection: Annotated[int, "width; 0: none"]
    persistent: Annotated[Flag, "the weights stay on the chip"]
    tensor_cores: Flag
    dropout: Flag


class DropoutStates(TypedDict):
    """cuDNN fills the states of its random numbers."""

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal["dropout_states"]
    type: NumberType
    bytes: int


class CtcLoss(TypedDict):
    """cuDNN's CTC loss, with the gradient if that is asked for."""

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal["ctc_loss"]
    type: NumberType
    seqlen: Annotated[int, "steps"]
    batch: int
    channels: int
    labels: Annotated[int, "of the longest sequence"]
    bytes: Annotated[int, "of the operands that are as large as the probabilities"]


class Sampling(TypedDict):
    """cuDNN's bilinear samples of images at the points of a grid, or the gradients of both."""

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal["sampling_forward", "sampling_backward"]
    type: NumberType
    batch: int
    channels: int
    pixels: Annotated[int, "of an image"]
    points: Annotated[int, "of a grid"]
    bytes: Annotated[int, "of images, grids, samples and the gradients, each once"]


class OperationGraph(TypedDict):
    """An operation graph of cuDNN that is none of the others."""

    kind: Literal["library"]
    library: Literal["cudnn"]
    operation: Literal["graph"]
    type: NumberType
    operations: int
    flops: Annotated[int, "of its products"]
    bytes: Annotated[int, "what the operands in memory hold, each once"]


class Dot(TypedDict):
    """An inner product of cuBLAS."""

    kind: Literal["library"]
    library: Literal["cublas"]
    operation: Literal["dot"]
    type: NumberType
    n: Annotated[int, "elements"]
    flops: int
    bytes: int


class Solve(TypedDict):
    """A factorisation, inverse or solution of cuBLAS."""

    kind: Literal["library"]
    library: Literal["cublas"]
    operation: Annotated[str, "trsm, getrf, getri, matinv, geqrf, gels, ..."]
    type: NumberType
    m: Annotated[int, "rows"]
    n: Annotated[int, "columns"]
    nrhs: Annotated[int, "right-hand sides"]
    batch: int
    flops: int
    bytes: int


class FourierTransform(TypedDict):
    """A transform of cuFFT."""

    kind: Literal["library"]
    library: Literal["cufft"]
    operation: Annotated[str, "r2c, c2c or c2r"]
    type: NumberType
    elements: Annotated[int, "of one transform"]
    batch: int
    flops: int
    bytes: Annotated[int, "read and written, in all passes"]


class SparseOperation(TypedDict):
    """An operation of cuSPARSE."""

    kind: Literal["library"]
    library: Literal["cusparse"]
    operation: Annotated[str, "spmm, spmv, sddmm, spgemm, coosort, ..."]
    type: NumberType
    m: Annotated[int, "rows of the sparse matrix"]
    n: Annotated[int, "columns of the dense one"]
    k: Annotated[int, "length of the sums"]
    nonzeros: int
    index_bytes: Annotated[int, "of one index"]
    batch: int


class Factorization(TypedDict):
    """A factorisation or solution of cuSOLVER, eigenvalues or singular values."""

    kind: Literal["library"]
    library: Literal["cusolver"]
    operation: Annotated[str, "potrf, getrs, geqrf, syevd, gesvd, ..."]
    type: NumberType
    m: Annotated[int, "rows"]
    n: Annotated[int, "columns"]
    columns: Annotated[int, "right-hand sides"]
    batch: int
    flops: int
    bytes: int


CudnnSignature = (
    Attention
    | Convolution
    | BatchNorm
    | Recurrent
    | DropoutStates
    | CtcLoss
    | Sampling
    | OperationGraph
)
LibrarySignature = CudnnSignature | Dot | Solve | FourierTransform | SparseOperation | Factorization
ProductSignature = Gemm | GroupedGemm
Signature = Kernel | ProductSignature | LibrarySignature

SIGNATURES: Final[tuple[type, ...]] = (
    *(Kernel, GroupedGemm, Gemm, Attention, Convolution, BatchNorm, Recurrent, DropoutStates),
    *(CtcLoss, Sampling, OperationGraph, Dot, Solve, FourierTransform, SparseOperation),
    Factorization,
)
"""What a kernel or a library call does: what a model needs, and nothing that changes between equal
launches: no pointers, no floating-point numbers, no stream."""


class _KeptLaunchMore(TypedDict, total=False):
    image: Annotated[str, "of a kernel that is compiled at run time: hash of its code object"]
    library: Annotated[str, "otherwise: file that the kernel is in"]
    offset: Annotated[int, "and where in it its host function is"]


class KeptLaunch(_KeptLaunchMore):
    """A launch that the GPU executor can do again (decisions/kernels-by-name.md), as a file of the
    run directory. Bytes are hexadecimal.
    """

    signature: Annotated[dict[str, Any], "of a Kernel"]
    cooperative: Flag
    cluster: Annotated[Triple, "blocks"]
    packed: Annotated[Flag, "the parameters are one buffer"]
    parameters: list[str]
    regions: Annotated[
        list[tuple[int, int]], "device memory that it may touch: address, size in bytes"
    ]
    contents: Annotated[list[tuple[int, str]], "what the rank knows of it: address, bytes"]


class CallCounts(TypedDict):
    """How often the program called each symbol of a library."""

    kind: Literal["calls"]
    library: str
    modelled: dict[str, Count]
    ignored: dict[str, Count]
    passthrough: dict[str, Count]


class Caveat(TypedDict):
    """Why the report is to be trusted less, as the rank has found."""

    kind: Literal["caveat"]
    what: Annotated[
        str,
        "hooks: a Python that does not load ours; watchdog: one of PyTorch's that nobody awaited "
        "longer; host_step: an optimizer's on host memory; threads: several that launch side by "
        "side; workers: a data loader's; loaded: batches took --data-time; tuning: of graphs",
    ]
    count: Count


class HostGaps(TypedDict):
    """Host time before launches and calls, where it is recorded."""

    kind: Literal["host_gaps"]
    gaps: Annotated[
        list[tuple[str, Count, Count]],
        "signature, or library and symbol; calls; typical nanoseconds",
    ]


class ReplayedGaps(TypedDict):
    """Where host times came from that were replayed: calls and nanoseconds."""

    kind: Literal["replayed_gaps"]
    signature: tuple[Count, Count]
    family: tuple[Count, Count]
    call: tuple[Count, Count]
    fixed: tuple[Count, Count]


class CountedWork(TypedDict):
    """What `--host-time counted` has counted and charged; without the first iteration, in which
    programs set up, if optimizers or marks have told of several.
    """

    kind: Literal["counted_work"]
    works: Annotated[
        list[tuple[str, Count, Count]], "what (csrc/shim/core/work_kinds.h), times, nanoseconds"
    ]
    calls: Annotated[
        list[tuple[str, Count, Count]],
        "class of intercepted calls, calls, nanoseconds around them",
    ]
    functions: Annotated[
        list[tuple[str, Count]], "Python function, nanoseconds that were charged while it ran"
    ]
    elsewhere_ns: Annotated[Count, "charged on threads that ran none"]
    stacks: Annotated[
        list[tuple[Count, str, Count]],
        "functions below those that called them: the caller's place in this list from 1 on, or 0; "
        "function; nanoseconds that were charged while it was the innermost",
    ]


class HostSample(TypedDict):
    """Of an iteration with `--host-samples`: the program's own work, timed and counted."""

    kind: Literal["host_sample"]
    spent_ns: Annotated[Count, "processor time of the rank's drivers"]
    works: Annotated[dict[str, Count], "csrc/shim/core/work_kinds.h"]
    calls: Annotated[dict[str, Count], "intercepted calls by class"]


class UnsupportedCalls(TypedDict):
    """Calls that are not modelled and after which the program went on."""

    kind: Literal["unsupported"]
    calls: Annotated[
        list[tuple[str, str, str, Count, Count]], "library, symbol, detail, line, calls"
    ]


class Group(TypedDict):
    """Of which ranks the communicator is that the rank comes to next; in folded runs."""

    kind: Literal["group"]
    meeting: Annotated[
        list[str], "the unique id, or the parent and how often it was split; empty: two that send"
    ]
    ranks: Annotated[list[Count], "in the communicator's order"]


STATISTICS_OF_SHIM: Final[tuple[type, ...]] = (
    *(CallCounts, HostGaps, ReplayedGaps, CountedWork, HostSample, UnsupportedCalls, Group),
    Caveat,
)


class _UnsupportedCallMore(TypedDict, total=False):
    answer: Literal["stop", "none", "error", "success"]


class UnsupportedCall(_UnsupportedCallMore):
    """A call that is not modelled, the first from its line. After `stop`, and without an answer,
    the rank ends.
    """

    library: str
    symbol: str
    detail: Annotated[str, "what of a modelled call is not"]
