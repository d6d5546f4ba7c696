#include "shim/core/value_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <memory>
#include <string>
#include <vector>

#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/core/rank.h"
#include "shim/core/value_queue.h"
#include "shim/core/values.h"

namespace ph {

namespace {

using Form = KernelRule::Form;

constexpr std::size_t kMostTensors = kMostOperands + 1;
constexpr std::size_t kStateBytes = 64;     // no functor of ours keeps more
constexpr std::size_t kMostElements = 8192; // one by one on the CPU takes tens of nanoseconds each; assumed enough

// Source: aten/src/ATen/cuda/detail/OffsetCalculator.cuh (25 dimensions on CUDA) and IntegerDivider.cuh.
constexpr std::size_t kMostDimensions = 25;
struct Divider {
  std::uint32_t divisor, m1, shift;
};

struct Tensor {
  unsigned char* data = nullptr;
  Scalar type = Scalar::None;
  std::vector<std::uint32_t> strides;  // bytes per dimension; empty: contiguous
};

struct Launch {
  std::size_t elements = 0;
  std::vector<std::uint32_t> sizes;  // of the dimensions, the fastest first
  std::array<Tensor, kMostTensors> tensors;  // the output first
  unsigned char state[kStateBytes];
};

std::size_t offset_of(const Launch& launch, const Tensor& tensor, std::size_t index) noexcept {
  if (tensor.strides.empty()) return index * size_of(tensor.type);
  std::size_t offset = 0;
  for (std::size_t d = 0; d < launch.sizes.size(); ++d) {
    offset += index % launch.sizes[d] * tensor.strides[d];
    index /= launch.sizes[d];
  }
  return offset;
}

// From the first byte to the last.
std::size_t extent_bytes(const Launch& launch, const Tensor& tensor) noexcept {
  std::size_t bytes = size_of(tensor.type);
  if (tensor.strides.empty()) return launch.elements * bytes;
  for (std::size_t d = 0; d < launch.sizes.size(); ++d) bytes += (launch.sizes[d] - std::size_t{1}) * tensor.strides[d];
  return bytes;
}

bool is_dense(const Launch& launch, const Tensor& tensor) noexcept {
  return extent_bytes(launch, tensor) == launch.elements * size_of(tensor.type);
}

// ---- what a launch's arguments say ---------------------------------------------------------------------

void read_pointers(const KernelRule& rule, const void* array, Launch& launch) noexcept {
  for (std::size_t i = 0; i < rule.operands; ++i) {
    std::memcpy(&launch.tensors[i].data, static_cast<char* const*>(array) + i, sizeof(char*));
  }
}

void read_state(const KernelRule& rule, const void* functor, Launch& launch) noexcept {
  std::memcpy(launch.state, functor, std::min(rule.function.state_bytes, kStateBytes));
}

void take_types_of_function(const KernelRule& rule, Launch& launch) noexcept {
  launch.tensors[0].type = rule.function.output;
  std::size_t next = 1;
  for (std::size_t i = 0; i < rule.function.operand_count; ++i) {
    const auto& operand = rule.function.operands[i];
    if (operand.kept_at < 0) launch.tensors[next++].type = operand.type;
  }
}

Scalar type_at(const void* numbers, std::size_t index) noexcept {
  return scalar_numbered(static_cast<const std::int8_t*>(numbers)[index]);
}

// OffsetCalculator<k>: dimensions, their dividers, and k strides for each.
bool read_calculator(const KernelRule& rule, const unsigned char* closure, Launch& launch) {
  std::int32_t dimensions;
  std::memcpy(&dimensions, closure, sizeof dimensions);
  if (dimensions < 0 || dimensions > static_cast<int>(kMostDimensions)) return false;
  const unsigned char* strides = closure + 4 + kMostDimensions * sizeof(Divider);
  for (std::size_t d = 0; d < static_cast<std::size_t>(dimensions); ++d) {
    Divider divider;
    std::memcpy(&divider, closure + 4 + d * sizeof divider, sizeof divider);
    if (divider.divisor == 0) return false;
    launch.sizes.push_back(divider.divisor);
    for (std::size_t i = 0; i < rule.operands; ++i) {
      std::uint32_t stride;
      std::memcpy(&stride, strides + 4 * (d * rule.operands + i), sizeof stride);
      launch.tensors[i].strides.push_back(stride);
    }
  }
  std::size_t elements = 1;
  for (const std::uint32_t size : launch.sizes) elements *= size;
  return elements == launch.elements;
}

const unsigned char* array_after_calculator(const unsigned char* closure, std::size_t operands) noexcept {
  const std::size_t after = 4 + kMostDimensions * (sizeof(Divider) + 4 * operands);
  return closure + (after + 7) / 8 * 8;
}

// The output of a strided kernel with any number of operands. Null: not found. Unused strides are zero, so the first
// device pointer is the right one.
const void* strided_output(const void* closure) noexcept {
  for (std::size_t operands = 1; operands <= kMostTensors; ++operands) {
    const void* output;
    std::memcpy(&output, array_after_calculator(static_cast<const unsigned char*>(closure), operands), sizeof output);
    if (is_device_pointer(output)) return output;
  }
  return nullptr;
}

bool read_strided(const KernelRule& rule, const unsigned char* closure, Launch& launch) {
  if (!read_calculator(rule, closure, launch)) return false;
  const unsigned char* array = array_after_calculator(closure, rule.operands);
  const unsigned char* functor = array + 8 * rule.operands;
  read_pointers(rule, array, launch);
  read_state(rule, functor, launch);
  if (rule.form == Form::Strided) {
    take_types_of_function(rule, launch);
    return true;
  }
  for (std::size_t i = 0; i < rule.operands; ++i) {
    launch.tensors[i].type = type_at(functor + rule.function.state_bytes, i);
  }
  return true;
}

// False: the arguments are not what the name promises.
bool read_launch(const KernelRule& rule, void* const* arguments, Launch& launch) {
  std::int32_t elements;
  std::memcpy(&elements, arguments[0], sizeof elements);
  if (elements <= 0) return false;
  launch.elements = static_cast<std::size_t>(elements);
  switch (rule.form) {
    case Form::None: return false;
    case Form::Strided:
    case Form::StridedCast:
      if (!read_strided(rule, static_cast<const unsigned char*>(arguments[1]), launch)) return false;
      break;
    case Form::Contiguous:
    case Form::Arange:
    case Form::Casting:
      read_state(rule, arguments[1], launch);
      read_pointers(rule, arguments[2], launch);
      take_types_of_function(rule, launch);
  }
  if (rule.form == Form::Casting) {
    for (std::size_t i = 1; i < rule.operands; ++i) launch.tensors[i].type = type_at(arguments[5], i - 1);
    launch.tensors[0].type = type_at(arguments[6], 0);
  }
  return std::all_of(launch.tensors.begin(), launch.tensors.begin() + static_cast<std::ptrdiff_t>(rule.operands),
                     [](const Tensor& t) { return t.type != Scalar::None && is_device_pointer(t.data); });
}

// ---- carrying it out -----------------------------------------------------------------------------------

bool inputs_known(const KernelRule& rule, const Launch& launch) {
  for (std::size_t i = 1; i < rule.operands; ++i) {
    const Tensor& input = launch.tensors[i];
    if (input.strides.empty()) {
      if (!known_now().covers(input.data, extent_bytes(launch, input))) return false;
      continue;
    }
    for (std::size_t e = 0; e < launch.elements; ++e) {
      if (!known_now().covers(input.data + offset_of(launch, input, e), size_of(input.type))) return false;
    }
  }
  return true;
}

Number arange_value(const KernelRule& rule, const Launch& launch, std::size_t index) noexcept {
  const Scalar type = rule.function.output;
  const Number start = load(type, launch.state);
  const Number step = load(type, launch.state + size_of(type));
  const auto i = static_cast<std::int64_t>(index);
  if (is_integral(type)) return whole(start.integer + step.integer * i);
  return real(start.real + step.real * static_cast<double>(i));
}

Number value_of(const KernelRule& rule, const Launch& launch, std::size_t index) noexcept {
  if (rule.form == Form::Arange) return arange_value(rule, launch, index);
  std::array<Number, kMostOperands> loaded;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rule.function.operand_count; ++i) {
    if (rule.function.operands[i].kept_at >= 0) continue;
    const Tensor& input = launch.tensors[next + 1];
    const Number number = load(input.type, input.data + offset_of(launch, input, index));
    loaded[next++] = converted(rule.function.operands[i].type, number);
  }
  return converted(rule.function.output, rule.function(loaded, launch.state));
}

void carry_out(const KernelRule& rule, const Launch& launch) {
  const Tensor& output = launch.tensors[0];
  const std::size_t extent = extent_bytes(launch, output);
  if (!inputs_known(rule, launch)) {
    known_now().remove(output.data, extent);
    return;
  }
  const std::size_t size = size_of(output.type);
  const bool dense = is_dense(launch, output);
  const bool same_everywhere = rule.form != Form::Arange && rule.operands == 1;
  Number value;
  for (std::size_t e = 0; e < launch.elements; ++e) {
    if (e == 0 || !same_everywhere) value = value_of(rule, launch, e);
    unsigned char* to = output.data + offset_of(launch, output, e);
    store(output.type, to, value);
    if (!dense) known_now().add(to, size);
  }
  if (dense) known_now().add(output.data, extent);
}

bool may_be_computed(const KernelRule& rule, const Launch& launch) noexcept {
  const std::size_t most = rule.operands == 1 ? config().value_bytes : kMostElements;
  if (!rule.computes || launch.elements > most) return false;
  for (std::size_t i = 0; i < rule.operands; ++i) {
    const Tensor& tensor = launch.tensors[i];
    const std::size_t extent = extent_bytes(launch, tensor);
    if (extent > config().value_bytes) return false;
    const bool contiguous = tensor.strides.empty();
    if (i != 0 && !is_known(tensor.data, contiguous ? extent : size_of(tensor.type))) return false;
  }
  return true;
}

// ---- names ---------------------------------------------------------------------------------------------

std::string demangled(std::string_view mangled) {
  int status = 0;
  const std::string terminated(mangled);
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(terminated.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && name ? name.get() : "";
}

KernelRule rule_for(Form form, std::string_view functor) {
  const auto function = parse_function(functor);
  if (function) return {form, true, 1 + function->loads(), *function};
  // The output of the others is an argument, which whoever launches sees; but here it hides in the lambda.
  if (form == Form::Strided || form == Form::StridedCast) return {form, false, 0, {}};
  return {};
}

// The dispatch of arange numbers its lambdas by type (AT_ALL_TYPES' order). Source: RangeFactories.cu.
KernelRule arange_rule(std::string_view name) {
  constexpr std::pair<std::string_view, Scalar> kLambdas[] = {
      {"{lambda()#3}::operator()() const::{lambda(long)#1}", Scalar::Int32},
      {"{lambda()#4}::operator()() const::{lambda(long)#1}", Scalar::Int64},
      {"{lambda()#6}::operator()() const::{lambda(long)#1}", Scalar::Float64},
      {"{lambda()#7}::operator()() const::{lambda(long)#1}", Scalar::Float32},
  };
  for (const auto& [lambda, type] : kLambdas) {
    if (name.find(lambda) == std::string_view::npos) continue;
    KernelRule rule{Form::Arange, true, 1, {}};
    rule.function.output = type;
    rule.function.state_bytes = 2 * size_of(type);
    return rule;
  }
  return {};
}

}  // namespace

KernelRule classify_kernel(std::string_view mangled) {
  if (mangled.find("elementwise_kernel") == std::string_view::npos) return {};
  const std::string full = demangled(mangled);
  std::string_view name = full;
  const auto begins = [&name](std::string_view prefix) { return name.starts_with(prefix); };
  const auto arguments = template_arguments(name);
  if (begins("void at::native::vectorized_elementwise_kernel<") && arguments.size() >= 2) {
    return rule_for(Form::Contiguous, arguments[1]);
  }
  if (begins("void at::native::unrolled_elementwise_kernel<") && arguments.size() >= 2) {
    const bool casts = arguments.back().find("StoreWithCast") != std::string_view::npos;
    return rule_for(casts ? Form::Casting : Form::Contiguous, arguments[0]);
  }
  if (begins("void at::native::elementwise_kernel<") && arguments.size() >= 3) {
    const bool casts = arguments[2].starts_with("at::native::gpu_kernel_impl<");
    const bool plain = arguments[2].starts_with("at::native::gpu_kernel_impl_nocast<");
    if (!casts && !plain) return {};
    return rule_for(casts ? Form::StridedCast : Form::Strided, template_arguments(arguments[2]).front());
  }
  if (begins("void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(")) {
    return arange_rule(name);
  }
  return {};
}

bool apply_kernel(const KernelRule& rule, void* const* arguments) noexcept {
  if (rule.form == Form::None || !attached()) return false;
  if (!any_known() && rule.operands != 1) return false;
  if (!rule.computes) {
    forget_at(strided_output(arguments[1]));
    return true;
  }
  Launch launch;
  if (!read_launch(rule, arguments, launch)) return false;
  const Tensor& output = launch.tensors[0];
  const std::size_t extent = extent_bytes(launch, output);
  if (!may_be_computed(rule, launch)) {
    mark_unknown(output.data, extent);
    return true;
  }
  expect_known(output.data, extent);
  enqueue_value([rule, launch = std::move(launch)] { carry_out(rule, launch); });
  return true;
}

}  // namespace ph
