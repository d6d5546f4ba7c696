#include "shim/kernels/kernel_structures.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "shim/kernels/kernel_lists.h"
#include "shim/kernels/offset_calculator.h"
#include "shim/kernels/structure_bytes.h"

namespace ph {
namespace {

using Kind = SizeReader::Kind;

// Source: aten/src/ATen/native/cuda/CUDALoops.cuh, launch_legacy_kernel: the closure begins with the calculator.
void read_strided(const SizeReader& reader, const LaunchShape& shape, const void* closure, std::int64_t* out) {
  const std::size_t inputs = reader.count - 1;
  std::fill_n(out, inputs + 1, kUnknownSize);
  Dimensions dimensions;
  if (!read_calculator(static_cast<const unsigned char*>(closure), reader.count, dimensions)) return;
  constexpr std::size_t kMostOfAThread = 16;
  const std::size_t threads = std::size_t{shape.grid[0]} * shape.block[0];
  if (dimensions.elements() > kMostOfAThread * threads) return;
  std::size_t sectors = 0;
  for (std::size_t tensor = 0; tensor < reader.count; ++tensor) sectors += dimensions.warp_sectors(tensor);
  out[0] = static_cast<std::int64_t>(sectors);
  for (std::size_t input = 1; input <= inputs; ++input)
    out[input] = static_cast<std::int64_t>(dimensions.distinct_elements(input));
}

// Source: aten/src/ATen/native/cuda/CUDALoops.cuh: the array begins with the output. x * x reads x once.
std::int64_t repeated_inputs(const SizeReader& reader, const void* operands) noexcept {
  std::int64_t repeated = 0;
  for (std::size_t input = 2; input < reader.count; ++input) {
    std::size_t same = 1;
    while (at<const void*>(operands, sizeof(void*) * same) != at<const void*>(operands, sizeof(void*) * input)) ++same;
    repeated += same < input;
  }
  return repeated == 0 ? kUnknownSize : repeated;
}

// Source: aten/src/ATen/native/cuda/Shape.cu, CatArrInputTensorMetadata<T, index, n, strides>: n pointers, then
// offset[n], dimSize[n] and nElements[n] of the index type. The grid's y is the number of inputs.
std::int64_t concatenated_elements(const SizeReader& reader, const LaunchShape& shape, const void* list) noexcept {
  if (reader.count == 0 || shape.grid[1] > reader.count) return kUnknownSize;
  const std::size_t start = sizeof(void*) * reader.count + 2 * std::size_t{reader.width_bytes} * reader.count;
  std::int64_t elements = 0;
  for (std::size_t input = 0; input < shape.grid[1]; ++input) {
    const std::int64_t of_input = reader.width_bytes == 8 ? at<std::int64_t>(list, start + 8 * input)
                                                          : std::int64_t{at<std::uint32_t>(list, start + 4 * input)};
    if (!may_be_elements(of_input)) return kUnknownSize;
    elements += of_input;
  }
  return elements > 0 ? elements : kUnknownSize;
}

// Source: aten/src/ATen/native/cuda/Reduce.cuh. ReduceOp holds the functor and the identity, whose sizes vary, and
// then ReduceConfig: element_size_bytes, num_inputs, num_outputs, step_input, step_output, ctas_per_output,
// input_mult[3], output_mult[2], block_width, block_height, num_threads. The last three are the launch's block.
// ReduceJitOp of what is compiled at run time holds the same after the identity. `element_bytes` is that of what is
// added up.
struct ReduceConfig {
  std::int64_t element_bytes = kUnknownSize;
  std::int64_t inputs = kUnknownSize;
  std::int64_t outputs = kUnknownSize;
};

ReduceConfig reduce_config(const LaunchShape& shape, const void* operation) noexcept {
  constexpr std::size_t kLastOffset = 128;
  for (std::size_t offset = 0; offset <= kLastOffset; offset += 4) {
    std::int32_t field[14];
    std::memcpy(field, static_cast<const char*>(operation) + offset, sizeof(field));
    const bool element = field[0] >= 1 && field[0] <= 16 && std::has_single_bit(static_cast<unsigned>(field[0]));
    const bool block = field[11] == static_cast<std::int32_t>(shape.block[0]) &&
                       field[12] == static_cast<std::int32_t>(shape.block[1]) && field[13] == field[11] * field[12];
    if (!element || !block || field[1] < 1 || field[2] < 1 || field[5] < 1) continue;
    return {field[0], field[1], field[2]};
  }
  return {};
}

void read_reduction(const SizeReader& reader, const LaunchShape& shape, const void* operation,
                    std::int64_t* out) noexcept {
  const ReduceConfig config = reduce_config(shape, operation);
  out[0] = config.inputs;
  out[1] = config.outputs;
  if (reader.kind != Kind::CompiledReduction) return;
  const bool is_narrow = config.inputs != kUnknownSize && reader.element_bytes != 0;
  out[2] = is_narrow ? reader.element_bytes : config.element_bytes;
}

// Source: aten/src/ATen/native/cuda/MemoryAccess.cuh, LoadWithCast and StoreWithCast: one byte of type per operand,
// then one 32-bit element size per operand.
std::int64_t cast_bytes(const SizeReader& reader, const void* cast) noexcept {
  const std::size_t start = align_up(reader.count, 4);
  std::int64_t total = 0;
  for (std::uint32_t operand = 0; operand < reader.count; ++operand) {
    const auto size_bytes = at<std::uint32_t>(cast, start + 4 * std::size_t{operand});
    if (size_bytes == 0 || size_bytes > 16) return kUnknownSize;
    total += size_bytes;
  }
  return total;
}

// Source: flash_attn/src/flash.h: three pointers and nine strides, then h, h_k, h_h_k_ratio; Flash_fwd_params goes on
// with five pointers and three strides, then b, seqlen_q, seqlen_k, seqlen_knew, d, seqlen_q_rounded,
// seqlen_k_rounded, d_rounded, rotary_dim, total_q, two scales and, of sequences of unequal length, cu_seqlens_q. Then
// seqlen_q is the longest, and total_q the sum. Flash_bwd_params begins with Flash_fwd_params.
void read_flash(const void* params, std::int64_t* out) noexcept {
  constexpr std::size_t kHeads = 96;
  constexpr std::size_t kBatch = 176;
  const auto heads = at<std::int32_t>(params, kHeads);
  const auto kv_heads = at<std::int32_t>(params, kHeads + 4);
  std::int32_t field[8];
  std::memcpy(field, static_cast<const char*>(params) + kBatch, sizeof(field));
  const bool agrees = heads > 0 && kv_heads > 0 && heads % kv_heads == 0 && field[0] > 0 && field[1] > 0 &&
                      field[2] > 0 && field[4] > 0 && field[4] <= field[7] && field[7] <= 512 && field[1] <= field[5] &&
                      field[5] - field[1] < 256 && field[2] <= field[6];
  const std::int64_t sizes[6] = {field[0], heads, kv_heads, field[1], field[2], field[4]};
  for (int i = 0; i < 6; ++i) out[i] = agrees ? sizes[i] : kUnknownSize;
  constexpr std::size_t kTotal = 212, kEnds = 224;
  const std::int64_t total = at<std::int32_t>(params, kTotal);
  const bool is_unequal = agrees && at<const void*>(params, kEnds) != nullptr && total >= field[1] &&
                          total <= std::int64_t{field[0]} * field[1];
  out[6] = is_unequal ? total : kUnknownSize;
}

// Source: aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h and kernel_backward.h: a run of
// 32-bit fields head_dim, head_dim_value, num_queries, num_keys, then num_keys_absolute or (backward) num_heads, and one
// byte custom_mask_type (0: none, 1 and 2: causal from either end), after a list of pointers whose length changes
// between versions. The grid tells the run apart: forward launches one block per `count` queries, backward has the
// heads in y.
void read_efficient(const SizeReader& reader, const LaunchShape& shape, const void* params,
                    std::int64_t* out) noexcept {
  constexpr std::size_t kFirst = 64;
  constexpr std::size_t kLast = 224;
  constexpr std::uint8_t kLastMask = 2;
  for (int i = 0; i < 5; ++i) out[i] = kUnknownSize;
  for (std::size_t offset = kFirst; offset <= kLast; offset += 4) {
    std::int32_t field[5];
    std::memcpy(field, static_cast<const char*>(params) + offset, sizeof(field));
    const bool sane =
        field[0] > 0 && field[0] <= 4096 && field[1] > 0 && field[1] <= 4096 && field[2] > 0 && field[3] > 0;
    if (!sane) continue;
    const bool agrees = reader.kind == Kind::EfficientForward
                            ? reader.count != 0 && divide_up(field[2], reader.count) == shape.grid[0]
                            : field[4] == static_cast<std::int32_t>(shape.grid[1]);
    if (!agrees) continue;
    for (int i = 0; i < 4; ++i) out[i] = field[i];
    const auto mask = at<std::uint8_t>(params, offset + sizeof(field));
    if (mask <= kLastMask) out[4] = mask;
    return;
  }
}

// Source: aten/src/ATen/core/TensorAccessor.h, GenericPackedTensorAccessor: the address, then sizes and strides of the
// index type.
std::int64_t tensor_elements(const SizeReader& reader, const void* accessor) noexcept {
  std::int64_t elements = 1;
  for (std::uint32_t dimension = 0; dimension < reader.count; ++dimension) {
    const std::size_t offset = sizeof(void*) + std::size_t{reader.width_bytes} * dimension;
    const std::int64_t size =
        reader.width_bytes == 4 ? at<std::int32_t>(accessor, offset) : at<std::int64_t>(accessor, offset);
    if (!may_be_elements(size) || (size != 0 && elements > kMostElements / size)) return kUnknownSize;
    elements *= size;
  }
  return elements;
}

// 0: of a type that is none of a tensor's elements.
std::uint32_t element_bytes(std::string_view type) {
  constexpr std::pair<std::string_view, std::uint32_t> kTypes[] = {{"c10::complex<double>", 16},
                                                                   {"c10::complex<float>", 8},
                                                                   {"double", 8},
                                                                   {"long", 8},
                                                                   {"float", 4},
                                                                   {"int", 4},
                                                                   {"c10::BFloat16", 2},
                                                                   {"c10::Half", 2},
                                                                   {"short", 2},
                                                                   {"unsigned char", 1},
                                                                   {"signed char", 1},
                                                                   {"bool", 1},
                                                                   {"c10::Float8", 1}};
  for (const auto& [name, bytes] : kTypes)
    if (type.starts_with(name)) return bytes;
  return 0;
}

// Source: aten/src/ATen/core/TensorAccessor.h; since 2.10, torch/headeronly/core/TensorAccessor.h; and
// aten/src/ATen/cuda/detail/TensorInfo.cuh: the address, 25 sizes, 25 strides, and the number of dimensions.
SizeReader plan_tensor(std::string_view type, std::uint16_t index) {
  struct Structure {
    std::string_view head;
    int element;  // which argument of the template
    bool has_dimensions;
  };
  constexpr Structure kStructures[] = {{"at::GenericPackedTensorAccessor<", 0, true},
                                       {"torch::headeronly::detail::GenericPackedTensorAccessor<", 2, true},
                                       {"at::cuda::detail::TensorInfo<", 0, false}};
  SizeReader reader{.kind = Kind::Tensor, .parameter = index};
  for (const auto& [head, element, has_dimensions] : kStructures) {
    if (!type.starts_with(head)) continue;
    reader.width_bytes = type.ends_with(" int>") ? 4 : 8;
    if (has_dimensions) reader.count = template_number(type, head, element + 1);
    if (!has_dimensions || reader.count != 0) reader.element_bytes = element_bytes(template_text(type, head, element));
  }
  return reader;
}

std::int64_t tensor_bytes(SizeReader reader, const void* argument) noexcept {
  constexpr std::uint32_t kMostDimensions = 25;
  if (reader.count == 0) {
    const std::size_t offset = sizeof(void*) + std::size_t{2} * kMostDimensions * reader.width_bytes;
    const auto dimensions = at<std::int32_t>(argument, offset);
    if (dimensions < 0 || dimensions > static_cast<std::int32_t>(kMostDimensions)) return kUnknownSize;
    reader.count = static_cast<std::uint32_t>(dimensions);
  }
  const std::int64_t elements = tensor_elements(reader, argument);
  return elements == kUnknownSize ? kUnknownSize : elements * reader.element_bytes;
}

bool has(std::string_view type, std::string_view part) { return type.find(part) != std::string_view::npos; }

}  // namespace

std::vector<SizeReader> plan_structure(std::string_view type, std::uint16_t index, bool large_lists) {
  if (type.starts_with("at::native::ReduceOp<")) return {{.kind = Kind::Reduction, .parameter = index}};
  if (type.starts_with("at::native::memory::LoadWithCast<"))
    return {{.kind = Kind::LoadCast, .parameter = index, .count = template_number(type, "LoadWithCast<", 0)}};
  if (type.starts_with("at::native::memory::StoreWithCast<"))
    return {{.kind = Kind::StoreCast, .parameter = index, .count = template_number(type, "StoreWithCast<", 0)}};
  if (type.starts_with("at::native::(anonymous namespace)::") && has(type.substr(0, 80), "ListMetadata<"))
    return {plan_tensor_list(type, index, large_lists)};
  if (has(type.substr(0, 80), "TensorListAddresses"))
    return {{.kind = Kind::Addresses, .parameter = index, .large_list = large_lists}};
  if (type.starts_with("at::native::(anonymous namespace)::CatArrInputTensorMetadata<"))
    return {{.kind = Kind::Concatenation,
             .parameter = index,
             .count = template_number(type, "CatArrInputTensorMetadata<", 2),
             .width_bytes = has(type, ", unsigned int, ") ? 4u : 8u}};
  for (const std::string_view head : {"std::array<char*, ", "at::detail::Array<char*, "})
    if (type.starts_with(head) && template_number(type, head, 0) > 2)
      return {{.kind = Kind::Operands, .parameter = index, .count = template_number(type, head, 0)}};
  if (type == "at::native::(anonymous namespace)::offset_t") return {{.kind = Kind::Segments, .parameter = index}};
  if (type.ends_with("Flash_fwd_params") || type.ends_with("Flash_bwd_params"))
    return {{.kind = Kind::Flash, .parameter = index}};
  if (type.starts_with("PyTorchMemEffAttention::AttentionKernel<"))
    return {
        {.kind = Kind::EfficientForward, .parameter = index, .count = template_number(type, "AttentionKernel<", 3)}};
  if (type.starts_with("PyTorchMemEffAttention::AttentionBackwardKernel<"))
    return {{.kind = Kind::EfficientBackward, .parameter = index}};
  return {};
}

// Of a tensor of images: what the first `dimensions` have.
void plan_first(SizeReader::Kind kind, SizeReader tensor, std::uint32_t dimensions, std::vector<SizeReader>& readers) {
  tensor.kind = kind;
  tensor.count = dimensions;
  readers.push_back(tensor);
}

// Source: aten/src/ATen/native/cuda/UpSampleBilinear2d.cu, UpSampleBicubic2d.cu: the first tensor has images, channels,
// height and width. GridSampler.cu: so has the result, which is the last one, or its gradient, the first.
void plan_images(std::string_view name, std::vector<SizeReader>& readers) {
  for (const std::string_view planes :
       {"upsample_bilinear2d_out_frame<", "upsample_bicubic2d_out_frame<", "upsample_bicubic2d_backward_out_frame<"})
    if (has(name, planes) && readers.front().count == 4) return plan_first(Kind::Planes, readers.front(), 2, readers);
  if (has(name, "grid_sampler_2d_kernel<")) plan_first(Kind::Results, readers.back(), 4, readers);
  if (has(name, "grid_sampler_2d_backward_kernel<")) plan_first(Kind::Results, readers.front(), 4, readers);
}

std::vector<SizeReader> plan_tensors(std::string_view name, std::span<const std::string> types) {
  std::vector<SizeReader> readers;
  if (!has(name.substr(0, name.find('<')), "at::native::")) return readers;
  for (std::size_t index = 0; index < types.size(); ++index) {
    const SizeReader reader = plan_tensor(types[index], static_cast<std::uint16_t>(index));
    if (reader.element_bytes != 0) readers.push_back(reader);
  }
  if (!readers.empty()) plan_images(name, readers);
  return readers;
}

std::optional<SizeReader> plan_strided(std::size_t operands) noexcept {
  if (operands < 2 || operands > 4) return std::nullopt;
  constexpr Kind kKinds[] = {Kind::OneInput, Kind::TwoInputs, Kind::ThreeInputs};
  return SizeReader{.kind = kKinds[operands - 2], .parameter = 1, .count = static_cast<std::uint32_t>(operands)};
}

std::span<const std::string_view> size_names(SizeReader::Kind kind) noexcept {
  static constexpr std::string_view kReduction[] = {"num_inputs", "num_outputs"};
  static constexpr std::string_view kCompiled[] = {"num_inputs", "num_outputs", "element_bytes"};
  static constexpr std::string_view kLoad[] = {"load_bytes"};
  static constexpr std::string_view kStore[] = {"store_bytes"};
  static constexpr std::string_view kElements[] = {"elements"};
  static constexpr std::string_view kList[] = {"elements", "different_elements"};
  static constexpr std::string_view kInputs[] = {"warp_sectors", "first_elements", "second_elements", "third_elements"};
  static constexpr std::string_view kOperands[] = {"repeated_inputs"};
  static constexpr std::string_view kSegments[] = {"segment_items"};
  static constexpr std::string_view kFlash[] = {"batch",    "heads",    "kv_heads", "seqlen_q",
                                                "seqlen_k", "head_dim", "total_q"};
  static constexpr std::string_view kWeights[] = {"weights"};
  static constexpr std::string_view kLookups[] = {"lookups"};
  static constexpr std::string_view kBags[] = {"bags"};
  static constexpr std::string_view kResults[] = {"results"};
  static constexpr std::string_view kPlanes[] = {"planes"};
  static constexpr std::string_view kTensor[] = {"tensor_bytes"};
  static constexpr std::string_view kEfficient[] = {"head_dim", "head_dim_value", "seqlen_q", "seqlen_k", "mask"};
  switch (kind) {
    case Kind::Reduction: return kReduction;
    case Kind::CompiledReduction: return kCompiled;
    case Kind::LoadCast: return kLoad;
    case Kind::StoreCast: return kStore;
    case Kind::Addresses: return {};
    case Kind::TensorList: return kList;
    case Kind::Concatenation: return kElements;
    case Kind::OneInput: return std::span(kInputs).first(2);
    case Kind::TwoInputs: return std::span(kInputs).first(3);
    case Kind::ThreeInputs: return kInputs;
    case Kind::Operands: return kOperands;
    case Kind::Segments: return kSegments;
    case Kind::Flash: return kFlash;
    case Kind::EfficientForward:
    case Kind::EfficientBackward: return kEfficient;
    case Kind::Weights: return kWeights;
    case Kind::Lookups: return kLookups;
    case Kind::Bags: return kBags;
    case Kind::Results: return kResults;
    case Kind::Planes: return kPlanes;
    case Kind::Tensor: return kTensor;
  }
  return {};
}

void read_sizes(const SizeReader& reader, const LaunchShape& shape, const void* argument, std::int64_t* out) noexcept {
  switch (reader.kind) {
    case Kind::Reduction:
    case Kind::CompiledReduction: return read_reduction(reader, shape, argument, out);
    case Kind::LoadCast:
    case Kind::StoreCast: out[0] = cast_bytes(reader, argument); return;
    case Kind::Addresses: return;
    case Kind::TensorList: return read_tensor_list(reader, shape, argument, out);
    case Kind::OneInput:
    case Kind::TwoInputs:
    case Kind::ThreeInputs: return read_strided(reader, shape, argument, out);
    case Kind::Operands: out[0] = repeated_inputs(reader, argument); return;
    case Kind::Concatenation: out[0] = concatenated_elements(reader, shape, argument); return;
    // Source: aten/src/ATen/native/cuda/Sort.cu: the distance from one begin to the next, and which comes first.
    case Kind::Segments: {
      const auto distance = at<std::int32_t>(argument, 0);
      out[0] = distance > 0 ? distance : kUnknownSize;
      return;
    }
    case Kind::Flash: return read_flash(argument, out);
    case Kind::EfficientForward:
    case Kind::EfficientBackward: return read_efficient(reader, shape, argument, out);
    case Kind::Weights:
    case Kind::Lookups:
    case Kind::Planes:
    case Kind::Results: out[0] = tensor_elements(reader, argument); return;
    case Kind::Tensor: out[0] = tensor_bytes(reader, argument); return;
    case Kind::Bags: out[0] = std::max(tensor_elements(reader, argument) - 1, kUnknownSize); return;
  }
}

}  // namespace ph
