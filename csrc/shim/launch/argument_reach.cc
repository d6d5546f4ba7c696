#include "shim/launch/argument_reach.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <pthread.h>

#include "shim/core/own_memory.h"
#include "shim/kernels/kernel_arguments.h"
#include "shim/kernels/kernel_lookups.h"
#include "shim/launch/frames.h"
#include "shim/values/element_functions.h"
#include "shim/values/extents.h"
#include "shim/values/kept_addresses.h"
#include "shim/values/tensor_view.h"
#include "shim/values/values.h"

namespace ph {

namespace {

using How = ReachPlan::How;
using Parameter = ReachPlan::Parameter;

// ---- what types prove ----------------------------------------------------------------------------------

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
  if (type == "at::PhiloxCudaState") return {.index = index, .how = How::Words, .bytes = 32};
  if (const std::uint16_t operands = operands_of(type)) {
    const std::uint16_t outputs = outputs_of(kernel);
    const auto bytes = static_cast<std::uint16_t>(8 * operands);
    if (outputs == 0) return {.index = index, .how = How::Words, .bytes = bytes};
    return {.index = index, .how = How::Operands, .bytes = bytes, .count = operands, .outputs = outputs};
  }
  for (const SizeReader& reader : plan_structure(type, index, large_lists)) {
    if (lists_tensors(reader.kind)) return {.index = index, .how = How::List, .list = reader};
  }
  return {.index = index};
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

constexpr std::uint16_t kHalfBytes = 4;

// Whether the library that has the host function is one of PyTorch's, or of those that it brings.
bool is_in_pytorch(const void* stub) noexcept {
  Dl_info info;
  if (stub == nullptr || dladdr(stub, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libtorch_") || name.starts_with("libc10_");
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

// ---- what a launch reaches -----------------------------------------------------------------------------

struct Reached {
  std::vector<const void*> written;
  std::size_t outputs = 0;  // of an elementwise kernel, the first of them
  std::vector<const void*> read;
  std::vector<Extent> inputs;  // of an elementwise kernel
  std::vector<const void*> pointers;  // to pointers that are written through
  std::vector<const void*> pinned;  // host memory that is written through
  std::vector<const void*> pinned_read;
  std::vector<std::uint32_t> halves;  // words of which two may be an address
  bool joins_halves = false;

  void clear() noexcept {
    written.clear();
    outputs = 0;
    read.clear();
    inputs.clear();
    pointers.clear();
    pinned.clear();
    pinned_read.clear();
    halves.clear();
  }
};

const void* pointer_at(const void* base, std::size_t offset) noexcept {
  const void* pointer;
  std::memcpy(&pointer, static_cast<const char*>(base) + offset, sizeof pointer);
  return pointer;
}

std::uint32_t half_at(const void* base, std::size_t offset) noexcept {
  std::uint32_t half;
  std::memcpy(&half, static_cast<const char*>(base) + offset, sizeof half);
  return half;
}

// To the end of the thread's stack.
std::size_t stack_bytes_from(const void* pointer) noexcept {
  struct Stack {
    const char* begin = nullptr;
    const char* end = nullptr;
    Stack() noexcept {
      pthread_attr_t attributes;
      void* base = nullptr;
      std::size_t bytes = 0;
      if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
      if (pthread_attr_getstack(&attributes, &base, &bytes) == 0) {
        begin = static_cast<const char*>(base);
        end = begin + bytes;
      }
      pthread_attr_destroy(&attributes);
    }
  };
  static thread_local const Stack stack;
  const auto* at = static_cast<const char*>(pointer);
  return at >= stack.begin && at < stack.end ? static_cast<std::size_t>(stack.end - at) : 0;
}

// Calls visit(word) for each aligned word of memory whose size is not known, that with its first bytes too: a structure
// of 32-bit words may begin in the middle of one.
template <class Visit>
void visit_words(const void* argument, std::size_t bytes, Visit&& visit) {
  const std::size_t before = reinterpret_cast<std::uintptr_t>(argument) % sizeof(void*);
  const char* from = static_cast<const char*>(argument) - before;
  if (const std::size_t most = stack_bytes_from(from)) {
    const std::size_t in_frame = frame_bytes_from(from);
    each_word(from, std::min(bytes + before, in_frame != 0 ? in_frame : most), visit);
    return;
  }
  const auto copy = read_own_memory(from, bytes + before);
  each_word(reinterpret_cast<const char*>(copy.data()), copy.size(), visit);
}

// No two arguments share bytes: one reaches to the next at most.
std::size_t most_bytes(const void* argument, std::span<void* const> arguments) noexcept {
  std::size_t bytes = kMostParameterBytes;
  for (const void* other : arguments) {
    if (other > argument) {
      bytes = std::min<std::size_t>(bytes, static_cast<const char*>(other) - static_cast<const char*>(argument));
    }
  }
  return bytes;
}

// A closure begins with the offsets of as many elements as the launch has.
bool is_closure(const Parameter& parameter, void* const* arguments) {
  Dimensions dimensions;
  std::int32_t elements;
  std::memcpy(&elements, arguments[0], sizeof elements);
  return elements > 0 &&
         read_calculator(static_cast<const unsigned char*>(arguments[parameter.index]), parameter.count, dimensions) &&
         dimensions.elements() == static_cast<std::size_t>(elements);
}

// At the begin of a parameter, what its type tells: offsets, most of which are never set and may look like addresses, and
// operands.
std::size_t told_bytes(const Parameter& parameter, void* const* arguments) {
  if (parameter.how != How::Operands || (parameter.offset != 0 && !is_closure(parameter, arguments))) return 0;
  return parameter.offset + sizeof(void*) * parameter.count;
}

void add_pointer(const void* pointer, std::vector<const void*>& device, std::vector<const void*>& pinned) {
  (may_be_pinned(pointer) ? pinned : device).push_back(pointer);
}

void add_operands(const Parameter& parameter, const void* argument, Reached& reached) {
  for (std::uint16_t i = 0; i < parameter.count; ++i) {
    const void* operand = pointer_at(argument, parameter.offset + sizeof(void*) * i);
    if (i >= parameter.outputs) reached.inputs.push_back(extent_of(operand));
    else add_pointer(operand, reached.written, reached.pinned);
  }
  reached.outputs = reached.written.size();
}

// The functor of an elementwise kernel may have pointers of its own, but not to the kernel's inputs.
void add_word(const void* pointer, Reached& reached) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const bool is_input = std::any_of(reached.inputs.begin(), reached.inputs.end(),
                                    [address](const Extent& input) { return input.holds(address); });
  if (!is_input) reached.written.push_back(pointer);
}

// Of two words beside each other, either may be the higher half of an address.
void add_pair(std::uint32_t first, std::uint32_t second, Reached& reached) {
  for (const auto& [low, high] : {std::pair(first, second), std::pair(second, first)}) {
    const auto* pointer = reinterpret_cast<const void*>(std::uintptr_t{high} << 32 | low);
    if (is_device_pointer(pointer)) add_word(pointer, reached);
  }
}

// What is looked at may be more than the argument, so that not any two halves are tried: those beside each other are, also
// where a word of two numbers looks like an address.
void add_words(const void* argument, std::size_t bytes, Reached& reached) {
  std::uint32_t last = 0;
  visit_words(argument, bytes, [&](const void* word) {
    if (!reached.joins_halves) {
      if (is_device_pointer(word)) add_word(word, reached);
      return;
    }
    const auto value = reinterpret_cast<std::uint64_t>(word);
    const auto low = static_cast<std::uint32_t>(value), high = static_cast<std::uint32_t>(value >> 32);
    add_pair(last, low, reached);
    add_pair(low, high, reached);
    last = high;
  });
}

// False: it is not the list that its type promises.
bool add_list(const SizeReader& reader, const LaunchShape& shape, const void* argument, Reached& reached) {
  const auto tensors = listed_tensors(reader, shape, argument);
  auto& reaches = reader.kind == SizeReader::Kind::Concatenation ? reached.read : reached.written;
  for (const void* tensor : tensors) add_pointer(tensor, reaches, reached.pinned);
  return !tensors.empty();
}

// Byte by byte: a packed structure may hold a pointer anywhere.
void add_sized(const void* argument, std::size_t bytes, Reached& reached) {
  for (std::size_t offset = 0; offset + sizeof(void*) <= bytes; ++offset) {
    const void* pointer = pointer_at(argument, offset);
    if (is_device_pointer(pointer)) add_word(pointer, reached);
    else if (may_be_pinned(pointer)) reached.pinned.push_back(pointer);
  }
  if (bytes == sizeof(void*) && is_device_pointer(pointer_at(argument, 0))) return;
  for (std::size_t offset = 0; offset + kHalfBytes <= bytes; offset += kHalfBytes)
    reached.halves.push_back(half_at(argument, offset));
}

// Addresses that the kernel gets as two words, wherever these are.
void join_halves(Reached& reached) {
  if (!reached.joins_halves) return;
  for (const std::uint32_t high : reached.halves) {
    const std::uintptr_t upper = std::uintptr_t{high} << 32;
    if (!is_device_pointer(reinterpret_cast<const void*>(upper)) || !is_in_use(upper, std::size_t{1} << 32)) continue;
    for (const std::uint32_t low : reached.halves) add_word(reinterpret_cast<const void*>(upper | low), reached);
  }
}

void add_parameters(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments, Reached& reached) {
  const std::span all(arguments, plan.count);
  for (const Parameter& parameter : plan.parameters) {
    if (told_bytes(parameter, arguments) != 0) add_operands(parameter, arguments[parameter.index], reached);
  }
  for (const Parameter& parameter : plan.parameters) {
    const std::size_t told = told_bytes(parameter, arguments);
    const void* argument = static_cast<const char*>(arguments[parameter.index]) + told;
    if (parameter.how == How::Written) add_pointer(pointer_at(argument, 0), reached.written, reached.pinned);
    else if (parameter.how == How::Pointers) reached.pointers.push_back(pointer_at(argument, 0));
    else if (parameter.how == How::Read) add_pointer(pointer_at(argument, 0), reached.read, reached.pinned_read);
    else if (parameter.how == How::List && add_list(parameter.list, shape, argument, reached)) continue;
    else if (parameter.bytes == 0) add_words(argument, most_bytes(argument, all), reached);
    else if (told < parameter.bytes) add_sized(argument, parameter.bytes - told, reached);
  }
  for (const std::uint16_t index : plan.halves) reached.halves.push_back(half_at(arguments[index], 0));
}

// Of a kernel of which nothing is known: as many arguments as there are addresses of memory one after the other. More
// than there are does no harm.
void add_unknown(void* const* arguments, Reached& reached) {
  constexpr std::size_t kMostParameters = 4096;
  std::vector<void*> all;
  const auto words = read_own_memory(arguments, kMostParameters * sizeof(void*));
  for (std::size_t at = 0; at + sizeof(void*) <= words.size(); at += sizeof(void*)) {
    void* argument = const_cast<void*>(pointer_at(words.data(), at));
    if (read_own_memory(argument, 1).empty()) break;
    all.push_back(argument);
  }
  for (const void* argument : all) add_words(argument, most_bytes(argument, all), reached);
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

void forget_arguments(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments,
                      const LaunchForm& form) noexcept {
  static thread_local Reached reached;
  reached.clear();
  reached.joins_halves = !plan.is_pytorchs;
  if (form.packed != nullptr) add_sized(form.packed, form.packed_bytes, reached);
  else if (arguments != nullptr && plan.is_complete) add_parameters(plan, shape, arguments, reached);
  else if (arguments != nullptr) add_unknown(arguments, reached);
  join_halves(reached);
  // What else a functor has is a number that the kernel may write.
  if (plan.is_pytorchs && reached.outputs != 0 && reached.outputs < reached.written.size()) {
    keep_numbers(&reached.written[reached.outputs], (reached.written.size() - reached.outputs) * sizeof(void*));
  }
  add_variables(reached.written, reached.read);
  for (const void* pointers : reached.pointers) forget_pointed(pointers, 1);
  forget_pinned(reached.pinned, reached.pinned_read);
  forget_reached(reached.written, reached.read, !plan.is_pytorchs);
}

}  // namespace ph
