#include "shim/launch/reach_plan.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <dlfcn.h>

#include "shim/kernels/kernel_arguments.h"
#include "shim/kernels/kernel_lookups.h"
#include "shim/kernels/offset_calculator.h"
#include "shim/values/element_functions.h"

namespace ph {

namespace {

using How = ReachPlan::How;
using Parameter = ReachPlan::Parameter;

constexpr std::uint16_t kNoPointer = 0xffff;

bool has(std::string_view text, std::string_view part) noexcept { return text.find(part) != std::string_view::npos; }

std::string_view without_restrict(std::string_view type) noexcept {
  constexpr std::string_view kRestrict = " __restrict";
  if (type.ends_with(kRestrict)) type.remove_suffix(kRestrict.size());
  return type;
}

bool is_number(std::string_view type) noexcept {
  constexpr std::string_view kNumbers[] = {"bool",
                                           "char",
                                           "signed char",
                                           "unsigned char",
                                           "short",
                                           "unsigned short",
                                           "int",
                                           "float",
                                           "double",
                                           "unsigned int",
                                           "c10::Half",
                                           "__half",
                                           "c10::BFloat16",
                                           "__nv_bfloat16",
                                           "__half2",
                                           "c10::complex<float>",
                                           "c10::complex<double>",
                                           "c10::complex<c10::Half>"};
  return std::find(std::begin(kNumbers), std::end(kNumbers), type) != std::end(kNumbers);
}

bool is_wide_integer(std::string_view type) noexcept {
  return type == "long" || type == "unsigned long" || type == "long long" || type == "unsigned long long";
}

// Structures that hold numbers alone, a text, and an enumeration; what they do not use is never set, and may look like
// an address. Source: aten/src/ATen/cuda/detail/OffsetCalculator.cuh, aten/src/ATen/native/cuda/MemoryAccess.cuh,
// Shape.cu, Nonzero.cu and TensorCompare.cu; of FBGEMM fixed_divisor.cuh and embedding_common.h.
bool holds_numbers(std::string_view type) noexcept {
  constexpr std::string_view kStructures[] = {"OffsetCalculator<",
                                              "TrivialOffsetCalculator<",
                                              "at::native::memory::LoadWithCast<",
                                              "at::native::memory::LoadWithoutCast",
                                              "at::native::memory::StoreWithCast<",
                                              "at::native::memory::StoreWithoutCast",
                                              "at::native::(anonymous namespace)::TensorSizeStride<",
                                              "at::native::(anonymous namespace)::TensorDims<",
                                              "at::native::Msg",
                                              "fbgemm_gpu::FixedDivisor",
                                              "fbgemm_gpu::BoundsCheckMode"};
  return std::any_of(std::begin(kStructures), std::end(kStructures),
                     [type](std::string_view prefix) { return type.starts_with(prefix); });
}

// What a structure points to that begins with its only pointer; empty: it is none that is known. Source:
// aten/src/ATen/cuda/detail/TensorInfo.cuh, aten/src/ATen/core/TensorAccessor.h and, since 2.10,
// torch/headeronly/core/TensorAccessor.h.
std::string_view tensor_element(std::string_view type) {
  struct Structure {
    std::string_view prefix;
    std::size_t element;  // which template argument
  };
  constexpr Structure kStructures[] = {{"at::cuda::detail::TensorInfo<", 0},
                                       {"at::GenericPackedTensorAccessor<", 0},
                                       {"at::PackedTensorAccessor", 0},
                                       {"torch::headeronly::detail::GenericPackedTensorAccessor<", 2}};
  for (const auto& [prefix, element] : kStructures) {
    if (!type.starts_with(prefix)) continue;
    const auto arguments = template_arguments(type);
    return element < arguments.size() ? arguments[element] : std::string_view();
  }
  return {};
}

// n of an array of n pointers to the operands of an elementwise kernel.
std::uint16_t operands_of(std::string_view type) {
  for (const std::string_view prefix : {"std::array<char*, ", "at::detail::Array<char*, "}) {
    if (!type.starts_with(prefix)) continue;
    return static_cast<std::uint16_t>(std::strtol(std::string(type.substr(prefix.size())).c_str(), nullptr, 10));
  }
  return 0;
}

// How many of its operands an elementwise kernel writes; 0: it is none of PyTorch's. Source:
// aten/src/ATen/native/cuda/CUDALoops.cuh and MultiOutput kernels beside it.
std::uint16_t outputs_of(std::string_view name) {
  constexpr std::string_view kMany = "void at::native::unrolled_elementwise_kernel_for_multi_outputs<";
  if (name.starts_with(kMany)) {
    return static_cast<std::uint16_t>(std::strtol(std::string(name.substr(kMany.size(), 4)).c_str(), nullptr, 10));
  }
  constexpr std::string_view kOne[] = {"void at::native::vectorized_elementwise_kernel<",
                                       "void at::native::vectorized_templated_elementwise_kernel<",
                                       "void at::native::unrolled_elementwise_kernel<"};
  return std::any_of(std::begin(kOne), std::end(kOne), [name](std::string_view one) { return name.starts_with(one); });
}

// The functors that PyTorch gives to multi_tensor_apply have no members, its lambdas do. Source:
// aten/src/ATen/native/cuda/ForeachFunctors.cuh and fused_adam_utils.cuh.
bool is_empty_functor(std::string_view kernel, std::string_view type) noexcept {
  return has(kernel, "::multi_tensor_apply_kernel<") && !has(type, "lambda") && !has(type, "Metadata<") &&
         (type.starts_with("at::native::") || type.starts_with("std::"));
}

How how_of_pointer(std::string_view type) noexcept {
  if (type.ends_with("**") || type.ends_with("* const*")) return How::Pointers;
  return type.ends_with(" const*") ? How::Read : How::Written;
}

// `bytes` of a parameter that holds no pointer is kNoPointer.
Parameter plan_parameter(std::string_view kernel, std::string_view type, std::uint16_t index, bool large_lists) {
  type = without_restrict(type);
  if (is_number(type) || holds_numbers(type) || is_empty_functor(kernel, type))
    return {.index = index, .bytes = kNoPointer};
  if (is_wide_integer(type)) return {.index = index, .how = How::Words, .bytes = 8};
  if (type.ends_with("*")) {
    return {.index = index, .how = how_of_pointer(type), .bytes = 8};
  }
  if (const std::string_view element = tensor_element(type); !element.empty()) {
    return {.index = index, .how = element.ends_with(" const") ? How::Read : How::Written, .bytes = 8};
  }
  if (type == "at::PhiloxCudaState") return {.index = index, .bytes = 32, .has_tensors = true};
  if (const std::uint16_t operands = operands_of(type)) {
    const std::uint16_t outputs = outputs_of(kernel);
    const auto bytes = static_cast<std::uint16_t>(8 * operands);
    if (outputs == 0) return {.index = index, .how = How::Words, .bytes = bytes};
    return {.index = index, .how = How::Operands, .bytes = bytes, .count = operands, .outputs = outputs};
  }
  for (const SizeReader& reader : plan_structure(type, index, large_lists)) {
    if (lists_tensors(reader.kind)) return {.index = index, .how = How::List, .list = reader, .has_tensors = true};
    if (reader.kind == SizeReader::Kind::Reduction) return {.index = index, .how = How::Reduction, .has_tensors = true};
  }
  return {.index = index, .has_tensors = true};
}

void plan_closure(std::string_view kernel, ReachPlan& plan) {
  const std::uint16_t operands = operands_of_closure(kernel);
  if (operands == 0 || plan.parameters.empty()) return;
  Parameter& closure = plan.parameters.back();
  closure.how = How::Operands;
  closure.offset = static_cast<std::uint16_t>((calculator_bytes(operands) + 7) / 8 * 8);
  closure.count = operands;
  closure.outputs = 1;
}

// FBGEMM's forward kernels write their results, the last parameter, although all tensors have the same type.
void plan_lookup(const std::vector<std::string>& types, ReachPlan& plan) {
  for (Parameter& parameter : plan.parameters) {
    const bool is_input = parameter.index + 1u < types.size() && !tensor_element(types[parameter.index]).empty();
    if (is_input) parameter.how = How::Read;
  }
}

// Whether the library that has the host function is one of PyTorch's, or of those that it brings.
bool is_in_pytorch(const void* stub) noexcept {
  Dl_info info;
  if (stub == nullptr || dladdr(stub, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libtorch_") || name.starts_with("libc10_");
}

// Structures of FlashAttention's, which other libraries have too.
bool is_flash(std::string_view type) noexcept {
  return type.ends_with("Flash_fwd_params") || type.ends_with("Flash_bwd_params");
}

// Numbers of the parameters that may be a half of an address.
std::vector<std::uint16_t> halves_among(const std::vector<std::string>& types) {
  std::vector<std::uint16_t> found;
  for (std::uint16_t i = 0; i < types.size(); ++i) {
    if (types[i] == "int" || types[i] == "unsigned int") found.push_back(i);
  }
  return found;
}

// The image tells sizes. Types, where there are as many, tell what is only read, and so does who has loaded the code.
void plan_sized(const std::vector<std::uint16_t>& sizes, ReachPlan& plan, std::uint64_t only_read = 0) {
  const bool has_types = plan.is_complete && plan.parameters.size() == sizes.size();
  plan.parameters.resize(sizes.size());
  plan.is_complete = true;
  for (std::uint16_t i = 0; i < sizes.size(); ++i) {
    Parameter& parameter = plan.parameters[i];
    if (has_types && parameter.how == How::Read && sizes[i] == 8) continue;
    const bool is_read = sizes[i] == 8 && i < 64 && (only_read >> i & 1) != 0;
    parameter = {.index = i, .how = is_read ? How::Read : How::Words, .bytes = sizes[i]};
  }
}

}  // namespace

std::uint16_t operands_of_closure(std::string_view name) {
  if (!name.starts_with("void at::native::elementwise_kernel<")) return 0;
  const auto arguments = template_arguments(name);
  if (arguments.size() < 3 || !arguments[2].starts_with("at::native::gpu_kernel_impl")) return 0;
  return static_cast<std::uint16_t>(operand_count(template_arguments(arguments[2]).front()));
}

// Source: aten/src/ATen/native/cuda/IndexKernel.cu: the closures begin with the calculator.
std::uint16_t operands_of_indexing(std::string_view name) {
  if (!name.starts_with("void at::native::index_elementwise_kernel<")) return 0;
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("index_fill_kernel_impl<")) return 2;
  return has("gpu_index_kernel<") || has("index_copy_kernel_impl<") ? 3 : 0;
}

ReachPlan plan_reach(std::string_view mangled, const KernelCode& code, bool large_lists) {
  ReachPlan plan;
  std::vector<std::string> types;
  std::string name;
  if (parameter_types(mangled, name, types)) {
    plan.is_complete = true;
    for (std::uint16_t i = 0; i < types.size(); ++i)
      plan.parameters.push_back(plan_parameter(name, types[i], i, large_lists));
    plan_closure(name, plan);
    if (is_forward_lookup(name)) plan_lookup(types, plan);
  }
  const bool is_sized = code.module_hash != 0 && code.lists_parameters;
  if (is_sized) plan_sized(code.parameter_bytes, plan, code.stated.only_read);
  plan.is_pytorchs = is_in_pytorch(code.stub);
  for (Parameter& parameter : plan.parameters) {
    if (parameter.has_tensors) parameter.has_tensors = plan.is_pytorchs || is_flash(types[parameter.index]);
  }
  if (!plan.is_pytorchs && !is_sized) plan.halves = halves_among(types);
  plan.count = static_cast<std::uint16_t>(plan.parameters.size());
  std::erase_if(plan.parameters, [](const Parameter& parameter) { return parameter.bytes == kNoPointer; });
  return plan;
}

bool lacks_sizes(const ReachPlan& plan) noexcept {
  return !plan.is_complete || std::any_of(plan.parameters.begin(), plan.parameters.end(),
                                          [](const Parameter& parameter) { return parameter.bytes == 0; });
}

void add_sizes(const std::vector<std::uint16_t>& sizes, ReachPlan& plan) {
  if (!plan.is_complete) {
    plan_sized(sizes, plan);
    plan.count = static_cast<std::uint16_t>(sizes.size());
    return;
  }
  if (sizes.size() != plan.count) return;
  for (Parameter& parameter : plan.parameters) {
    if (parameter.bytes == 0) parameter.bytes = sizes[parameter.index];
  }
}

}  // namespace ph
