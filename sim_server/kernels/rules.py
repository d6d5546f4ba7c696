"""Which class a kernel belongs to: the first rule whose pattern is found in the kernel's family."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels import (
    attention,
    batch_norm,
    elementwise,
    fbgemm,
    indexing,
    optimizer,
    pairs,
    pooling,
    resizing,
    rows,
    sampling,
    searching,
    sorting,
    windows,
)
from sim_server.kernels.work import Launch, Work, guessed, held_share

Estimator = Callable[[Launch, GpuProfile], Work]


@dataclass(frozen=True)
class Rule:
    """Kernels whose family matches `pattern` are of class `kernel_class` and estimated by
    `estimate`.
    """

    pattern: re.Pattern[str]
    kernel_class: str
    estimate: Estimator


def _rule(pattern: str, kernel_class: str, estimate: Estimator) -> Rule:
    return Rule(re.compile(pattern), kernel_class, estimate)


# Assumed: share of a streaming kernel's rate where a thread goes over parts of tensors.
_TENSORS = 0.6
# Share of a streaming kernel's rate: Liger's kernels (linkedin/Liger-Kernel@ead96b61).
_TRITON = 0.93
# Threads for which a multiprocessor begins an instruction in a cycle, at most.
_LANES = 128
# Assumed: tile, depth and share of the peak of a product whose sizes its argument structure hides;
# the share is that of products in Triton, too.
_HIDDEN_TILE_FLOPS = 2 * 128 * 128 * 4096
_HIDDEN_EFFICIENCY = 0.6
# Assumed: a Triton program's thread handles about four elements of two or three tensors.
_TRITON_BYTES_PER_THREAD = 40


def unknown(launch: Launch, _gpu: GpuProfile) -> Work:
    """A kernel without a rule: what its code tells, as of NVRTC's, or elements of types that are
    arguments of these; or its tensors, each once, where it gets them with their sizes; or else 16
    bytes a thread.
    """
    if moved := elementwise.told_bytes(launch):
        return Work(bytes=moved, sound=True)
    if tensors_bytes := launch.sizes.get("tensor_bytes"):
        return Work(bytes=tensors_bytes, efficiency=_TENSORS, sound=False)
    return guessed(launch)


def spin(launch: Launch, gpu: GpuProfile) -> Work:
    """spin_kernel(cycles) of torch.cuda._sleep: one thread looks at the clock until they are
    over.
    """
    cycles = launch.integer(0)
    serial_ns = (cycles or 0) * 1e6 / gpu.clocks["sm_khz"]
    return Work(bytes=0, serial_ns=serial_ns, sound=cycles is not None)


# Fitted to `_assert_async` on H100 (docs/accuracy-operators.md): one thread reads what it checks.
_ASSERTION_NS = 1350


def asserted(_launch: Launch, _gpu: GpuProfile) -> Work:
    """_assert_async_cuda_kernel(flag, message): one thread."""
    return Work(bytes=1, serial_ns=_ASSERTION_NS)


def triton(launch: Launch, gpu: GpuProfile) -> Work:
    """A kernel of Triton: what its blocks load, store and compute, or its threads. Triton's code
    knows what is loaded twice, machine code does not.
    """
    moved = launch.over_blocks(launch.block_bytes)
    if moved is None and not launch.thread_bytes:
        return Work(bytes=launch.blocks * launch.threads * _TRITON_BYTES_PER_THREAD, sound=False)
    if moved is None:
        moved = launch.blocks * launch.threads * launch.thread_bytes
    flops, again, instructions = (
        launch.over_blocks(expression) or 0
        for expression in (launch.block_flops, launch.block_again, launch.block_instructions)
    )
    if flops:  # tiles that blocks share
        cached = moved
    else:
        at_once = min(1, gpu.sm_count * launch.resident(gpu) / launch.blocks)
        cached = again and again * held_share(again * at_once, gpu)
    moving = Work(bytes=moved - cached, cached_bytes=cached, efficiency=_TRITON)
    busy_ns = max(
        instructions / (_LANES * gpu.cycles_per_ns), gpu.sm_count * flops / _hidden_rate(gpu)
    )
    work = replace(moving, cycles=busy_ns * gpu.cycles_per_ns)
    of_memory, of_both = (one.duration_ns(gpu, launch.blocks) for one in (moving, work))
    return replace(work, sound=not flops and of_memory == of_both)


def hidden_product(launch: Launch, gpu: GpuProfile) -> Work:
    """A CUTLASS kernel that PyTorch brings itself (scaled, grouped, sparse products)."""
    return _tiles(launch.blocks, gpu)


def _tiles(count: int, gpu: GpuProfile) -> Work:
    return Work(bytes=0, serial_ns=count * _HIDDEN_TILE_FLOPS / _hidden_rate(gpu), sound=False)


def _hidden_rate(gpu: GpuProfile) -> float:
    """Operations of products in a nanosecond."""
    return gpu.peak_flops_per_ns("bf16") * _HIDDEN_EFFICIENCY


def template(launch: Launch, gpu: GpuProfile) -> Work:
    """A product or attention that Inductor made of a template: it loops over a depth that it hides.

    No less is taken than for other hidden products, so that a guess does not win an autotuning
    against a library whose time is modelled; and as few blocks as there are take as long as one for
    each multiprocessor: they do not help each other.
    """
    if launch.thread_bytes:
        return triton(launch, gpu)
    return _tiles(ceil(launch.blocks / gpu.sm_count) * gpu.sm_count, gpu)


_BROUGHT = _rule(r"^(?!triton_)", "triton", triton)
RULES = (
    # Inductor names kernels after operators, which other rules look for. Templates: under their own
    # names while they are being timed.
    _rule(r"^triton_(tem_|mm|bmm|grouped_mm|convolution|flex_)", "triton", template),
    _rule(r"^triton_", "triton", triton),
    _rule(r"multi_tensor_apply_kernel$", "optimizer", optimizer.multi_tensor),
    _rule(r"lpnorm_cleanup$|lpmax_cleanup$", "optimizer", optimizer.norm_cleanup),
    _rule(r"flash_fwd_splitkv_combine_kernel$", "attention", attention.flash_combine),
    _rule(r"flash_bwd_(dot_do_o|convert_dq|convert_dkv)\w*$", "attention", attention.flash_helper),
    _rule(r"pytorch_flash::flash_(fwd|bwd)_\w+$", "attention", attention.flash_pass),
    _rule(r"^fmha_cutlass[FB]_", "attention", attention.efficient_pass),
    _rule(r"softmax_warp_(forward|backward)$", "softmax", rows.softmax_warp),
    _rule(r"cunn_SpatialSoftMax", "softmax", rows.softmax_spatial),
    _rule(r"cunn_SoftMax", "softmax", rows.softmax_block),
    _rule(r"RowwiseMomentsCUDAKernel$", "norm", batch_norm.moments),
    _rule(r"vectorized_layer_norm_kernel$|LayerNormForward", "norm", rows.norm_forward),
    _rule(r"layer_norm_grad_input_kernel", "norm", rows.norm_backward),
    _rule(r"ComputeInternalGradients\w*CUDAKernel$", "norm", batch_norm.group_sums),
    _rule(r"ComputeBackwardFusedParamsCUDAKernel$", "norm", batch_norm.fused_parameters),
    _rule(r"batch_norm_\w+_channels_last_kernel$", "norm", batch_norm.channels_last),
    _rule(r"batch_norm_(collect_statistics|backward)_kernel$", "norm", batch_norm.of_channels),
    _rule(r"batch_norm_transform_input_kernel$", "norm", batch_norm.transform),
    _rule(r"renormRowsL1$", "norm", rows.renormed),
    _rule(r"GammaBetaBackward|GammaBeta1dBackward", "norm", rows.norm_parameters),
    _rule(r"nll_loss", "loss", rows.cross_entropy),
    _rule(r"::reduce_kernel$|^reduction_\w+_kernel$", "reduction", rows.reduction),
    _rule(r"vectorized_gather_kernel$", "embedding", indexing.gather_rows),
    _rule(r"(vectorized|tma)_scatter_kernel$", "index", indexing.scatter_rows),
    _rule(r"embedding_backward_feature_kernel$", "embedding", indexing.embedding_backward),
    _rule(
        r"compute_grad_weight(_atomic_accumulate|_bags)?$",
        "embedding",
        indexing.embedding_partial_sums,
    ),
    _rule(r"sum_and_scatter$", "embedding", indexing.embedding_scatter_sums),
    _rule(r"EmbeddingBag_accGradParametersKernel_max$", "embedding", searching.greatest_gradient),
    _rule(
        r"_embedding_bag_per_sample_weights_backward_kernel$",
        "embedding",
        searching.weight_gradient,
    ),
    _rule(r"EmbeddingBag_updateOutputKernel", "embedding", indexing.embedding_bag),
    _rule(r"embedding_(nobag_)?codegen_forward_\w*kernel", "embedding", fbgemm.forward),
    _rule(r"embedding_(nobag_)?backward_codegen_\w*_warp_per_row", "embedding", fbgemm.backward),
    # Rows that many lookups share have blocks of their own: mostly there are none.
    _rule(r"embedding_(nobag_)?backward_codegen_\w*_cta_per_row", "embedding", unknown),
    _rule(r"index_elementwise_kernel$", "index", indexing.indexed),
    _rule(r"scatter_gather_elementwise_kernel$", "index", indexing.scattered),
    _rule(r"indexSelect|indexFunc", "index", indexing.index_select),
    _rule(r"indexing_backward_kernel", "index", indexing.added_rows),
    _rule(r"fill_reverse_indices_kernel$", "index", indexing.counted),
    _rule(r"CatArrayBatchedCopy", "concatenate", indexing.concatenate),
    _rule(r"chunk_cat_cuda_kernel$", "concatenate", indexing.chunk_cat),
    _rule(r"split_with_sizes_copy_out", "concatenate", indexing.split_copy),
    _rule(r"transpose_copy_tiled_kernel$", "copy", indexing.transpose),
    _rule(r"im2col_kernel$", "other", windows.unfold),
    _rule(
        r"(max_pool_forward_(nchw|nhwc)|avg_pool2d_out_cuda_frame(_nhwc)?)$", "other", pooling.pool
    ),
    _rule(r"max_pool_backward_(nchw|nhwc)$", "other", pooling.pool_gradient),
    _rule(r"avg_pool2d_backward\w*_frame(_nhwc)?$", "other", pooling.average_pool_gradient),
    _rule(r"conv_depthwise2d_(forward|backward)_kernel\w*$", "other", windows.depthwise),
    _rule(r"conv_depthwise2d_grad_weight_kernel$", "other", windows.depthwise_weights),
    _rule(r"col2im_batched_kernel$", "other", windows.fold),
    _rule(
        r"adaptive_average_pool$|adaptiveaveragepool$|adaptivemaxpool$|"
        r"adaptive_average_gradinput$|adaptivemaxgradinput$",
        "other",
        windows.adaptive_pool,
    ),
    _rule(r"adaptive_average_(pool|gradinput)_nhwc$", "other", windows.adaptive_pool_nhwc),
    _rule(r"max_pool3d_with_indices_single_out_frame$", "other", windows.pool_volume),
    _rule(
        r"max_pool3d_with_indices_backward_single_out_frame$",
        "other",
        windows.pool_volume_gradient,
    ),
    _rule(r"upsample_nearest[123]d_(backward_)?out_frame$", "other", resizing.nearest),
    _rule(r"upsample_nearest2d_(backward_)?nhwc_out_frame$", "other", resizing.nearest_nhwc),
    _rule(r"upsample_bilinear2d_nhwc_out_frame$", "other", resizing.bilinear_nhwc),
    _rule(r"upsample_bilinear2d_out_frame$", "other", resizing.bilinear),
    _rule(r"upsample_bilinear2d_backward_(nhwc_)?out_frame$", "other", resizing.bilinear_gradient),
    _rule(r"upsample_bicubic2d_(backward_)?out_frame$", "other", resizing.bicubic),
    _rule(r"re(flection|plication)_pad\w*_kernel(\dd)?$", "other", sampling.padded),
    _rule(r"grid_sampler_2d_(backward_)?kernel$", "other", sampling.sampled),
    _rule(r"[cp]dist_kernel_cuda_impl$", "other", pairs.distances),
    _rule(r"(MultiMarginLoss|multilabel_margin_loss)_\w+_kernel$", "loss", pairs.margin_loss),
    _rule(r"SortKVInPlace$", "sort", sorting.sort_rows),
    _rule(r"topk::gatherTopK$", "sort", sorting.top_k),
    _rule(r"topk::computeBlockDigitCounts$", "sort", sorting.top_k_counts),
    _rule(r"topk::computeDigitCumSum$", "sort", sorting.top_k_digit_sums),
    _rule(r"topk::fill$", "fill", sorting.top_k_fill),
    _rule(r"tensor_kernel_scan_(innermost|outer)_dim", "sort", sorting.scan_rows),
    _rule(r"gather(Median|KthValue)$", "sort", sorting.selected_rows),
    _rule(r"searchsorted_cuda_kernel$", "sort", searching.searched),
    _rule(r"internal::\(anonymous namespace\)::scatter_kernel$", "sort", searching.placed),
    _rule(r"sort_postprocess_kernel$", "sort", searching.sorted_pairs),
    _rule(r"^compute_cuda_kernel$", "sort", searching.repeated),
    _rule(r"compute_mode$", "sort", sorting.modes),
    _rule(r"kernelHistogram1D$", "sort", sorting.histogram),
    _rule(r"DeviceRadixSortHistogramKernel$", "sort", sorting.radix_histogram),
    _rule(r"DeviceRadixSortOnesweepKernel$", "sort", sorting.radix_pass),
    _rule(r"DeviceSegmentedRadixSortKernel$", "sort", sorting.segmented_sort),
    _rule(r"roll_cuda_kernel$", "copy", indexing.roll),
    _rule(
        r"cub::|thrust::|Sort|sort|topk::|krn_|compute_num_of_partial_segments$|unique",
        "sort",
        sorting.device_wide,
    ),
    _rule(r"fused_dropout_kernel", "random", elementwise.dropout),
    _rule(r"distribution_\w+_kernel$|philox", "random", elementwise.random_fill),
    _rule(r"kernelPointwiseApply2$|rrelu_with_noise_cuda_kernel$", "random", elementwise.drawn),
    _rule(r"cross_kernel$", "elementwise", elementwise.crossed),
    _rule(r"elementwise_kernel_with_index$", "elementwise", elementwise.indexed_fill),
    _rule(elementwise.COMPILED.pattern, "elementwise", elementwise.compiled),
    _rule(r"triu_tril_kernel$", "elementwise", elementwise.triangle),
    _rule(
        r"elementwise_kernel(_for_multi_outputs)?$",
        "elementwise",
        elementwise.pointwise,
    ),
    _rule(r"cutlass\w*::(device_kernel|Kernel)|^_ZN\d+cutlass", "gemm", hidden_product),
    _rule(r"spin_kernel$", "other", spin),
    _rule(r"_assert_async_cuda_kernel$", "other", asserted),
    _rule(r"", "other", unknown),
)


def find_rule(family: str) -> Rule:
    """The first rule that matches; the last one matches everything."""
    return next(rule for rule in RULES if rule.pattern.search(family))


def classify(launch: Launch) -> tuple[str, Rule]:
    """Class and rule of a launch: fills and plain copies are told from other pointwise kernels."""
    family = launch.name.family
    of_triton = launch.block_bytes and _BROUGHT.pattern.search(family)
    rule = _BROUGHT if of_triton else find_rule(family)
    if rule.kernel_class != "elementwise":
        return rule.kernel_class, rule
    text = launch.name.text
    if "FillFunctor" in text:
        return "fill", rule
    return ("copy" if "copy_kernel_cuda" in text else "elementwise"), rule
