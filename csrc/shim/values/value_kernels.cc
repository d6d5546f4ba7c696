#include "shim/values/value_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <memory>
#include <string>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/values/kept_addresses.h"
#include "shim/values/tensor_view.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

using Form = KernelRule::Form;

constexpr std::size_t kMostTensors = kMostOperands + 1;
constexpr std::size_t kStateBytes = 64;     // no functor of ours keeps more

struct Tensor {
  unsigned char* data = nullptr;
  Scalar type = Scalar::None;
};

struct Launch {
  std::size_t elements = 0;
  bool strided = false;
  Dimensions dimensions;                     // of a strided launch
  std::array<Tensor, kMostTensors> tensors;  // the output first
  alignas(8) unsigned char state[kStateBytes];

  std::size_t size(std::size_t tensor) const noexcept { return size_of(tensors[tensor].type); }
  unsigned char* element(std::size_t tensor, std::size_t index) const noexcept {
    return tensors[tensor].data + (strided ? dimensions.offset(tensor, index) : index * size(tensor));
  }
  // From the first byte to the last.
  std::size_t extent_bytes(std::size_t tensor) const noexcept {
    return strided ? dimensions.extent(tensor) + size(tensor) : elements * size(tensor);
  }
};

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

const unsigned char* array_after_calculator(const unsigned char* closure, std::size_t operands) noexcept {
  return closure + (calculator_bytes(operands) + 7) / 8 * 8;
}

bool read_strided(const KernelRule& rule, const unsigned char* closure, Launch& launch) {
  launch.strided = true;
  if (!read_calculator(closure, rule.operands, launch.dimensions)) return false;
  if (launch.dimensions.elements() != launch.elements) return false;
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
    case Form::None:
    case Form::Reduction:
    case Form::Concatenation:
    case Form::Assertion: return false;
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
    if (known_now().covers(launch.tensors[i].data, launch.extent_bytes(i))) continue;
    if (!launch.strided) return false;
    for (std::size_t e = 0; e < launch.elements; ++e) {
      if (!known_now().covers(launch.element(i, e), launch.size(i))) return false;
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
    const Number number = load(launch.tensors[next + 1].type, launch.element(next + 1, index));
    loaded[next++] = converted(rule.function.operands[i].type, number);
  }
  return converted(rule.function.output, rule.function(loaded, launch.state));
}

// Such a launch only moves numbers to other places.
bool only_moves(const KernelRule& rule, const Launch& launch) noexcept {
  return rule.operands == 2 && rule.function.operation == Operator::First &&
         launch.tensors[0].type == launch.tensors[1].type;
}

// Flags and counts often repeat, and to compare is much cheaper than to compute. Kept, as the output may take their place.
class LastInputs {
 public:
  bool are_repeated(const KernelRule& rule, const Launch& launch, std::size_t index) noexcept {
    if (rule.form == Form::Arange) return false;
    bool repeated = index != 0;
    for (std::size_t i = 1; i < rule.operands; ++i) {
      const unsigned char* const input = launch.element(i, index);
      if (repeated && std::memcmp(kept_[i].data(), input, launch.size(i)) == 0) continue;
      repeated = false;
      std::memcpy(kept_[i].data(), input, launch.size(i));
    }
    return repeated;
  }

 private:
  std::array<std::array<unsigned char, sizeof(std::int64_t)>, kMostTensors> kept_;
};

void carry_out(const KernelRule& rule, const Launch& launch) {
  const Tensor& output = launch.tensors[0];
  const std::size_t extent = launch.extent_bytes(0);
  if (!inputs_known(rule, launch)) {
    known_now().remove(output.data, extent);
    return;
  }
  const bool dense = extent == launch.elements * launch.size(0);
  const bool moves = only_moves(rule, launch);
  std::vector<const void*> undefined;
  Number value;
  LastInputs last;
  for (std::size_t e = 0; e < launch.elements; ++e) {
    if (moves) {
      std::memcpy(launch.element(0, e), launch.element(1, e), launch.size(0));
      if (!dense) known_now().add(launch.element(0, e), launch.size(0));
      continue;
    }
    if (!last.are_repeated(rule, launch, e)) value = converted(output.type, value_of(rule, launch, e));
    if (!value.defined) {
      undefined.push_back(launch.element(0, e));
      continue;
    }
    store(output.type, launch.element(0, e), value);
    if (!dense) known_now().add(launch.element(0, e), launch.size(0));
  }
  if (dense) known_now().add(output.data, extent);
  for (const void* element : undefined) known_now().remove(element, launch.size(0));
}

// Numbers that only move, and without gaps integers and flags, which decide something, and what is made of integers.
bool may_be_large(const KernelRule& rule, const Launch& launch) noexcept {
  const auto& tensors = launch.tensors;
  if (only_moves(rule, launch)) return true;
  if (launch.strided) return false;
  if (is_integral(tensors[0].type)) return true;
  return rule.operands > 1 &&
         std::all_of(tensors.begin() + 1, tensors.begin() + static_cast<std::ptrdiff_t>(rule.operands),
                     [](const Tensor& tensor) { return is_integral(tensor.type); });
}

bool may_be_computed(const KernelRule& rule, const Launch& launch) noexcept {
  constexpr std::size_t kMostIndexBytes = kMostIntegers * sizeof(std::int64_t);
  const bool large = may_be_large(rule, launch);
  const std::size_t most_bytes = std::max<std::size_t>(large ? kMostIndexBytes : 0, config().value_bytes);
  // A fill needs no inputs.
  if (launch.elements > (rule.operands == 1 ? most_bytes : large ? kMostIntegers : kMostElements)) return false;
  for (std::size_t i = 0; i < rule.operands; ++i) {
    const std::size_t extent = launch.extent_bytes(i);
    if (extent > most_bytes) return false;
    if (i != 0 && !is_known(launch.tensors[i].data, launch.strided ? launch.size(i) : extent)) return false;
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
  if (function) return {form, 1 + function->loads(), *function, {}, {}, {}};
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
    KernelRule rule{Form::Arange, 1, {}, {}, {}, {}};
    rule.function.output = type;
    rule.function.state_bytes = 2 * size_of(type);
    return rule;
  }
  return {};
}

KernelRule elementwise_rule(std::string_view name) {
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

}  // namespace

KernelRule classify_kernel(std::string_view mangled) {
  constexpr std::string_view kFamilies[] = {"elementwise_kernel", "reduce_kernel", "CatArrayBatchedCopy",
                                            "_assert_async_cuda_kernel"};
  const bool candidate = std::any_of(std::begin(kFamilies), std::end(kFamilies), [mangled](std::string_view family) {
    return mangled.find(family) != std::string_view::npos;
  });
  if (!candidate) return {};
  const std::string full = demangled(mangled);
  KernelRule structured;
  if (const auto reduction = parse_reduction(full)) {
    structured.form = Form::Reduction;
    structured.reduction = *reduction;
  } else if (const auto concatenation = parse_concatenation(full)) {
    structured.form = Form::Concatenation;
    structured.concatenation = *concatenation;
  } else if (const auto assertion = parse_assertion(full); assertion.type != Scalar::None) {
    structured.form = Form::Assertion;
    structured.assertion = assertion;
  }
  return structured.form == Form::None ? elementwise_rule(full) : structured;
}

bool apply_kernel(const KernelRule& rule, const LaunchShape& shape, void* const* arguments) noexcept {
  if (rule.form == Form::None || !attached()) return false;
  if (rule.form == Form::Reduction) return apply_reduction(rule.reduction, shape, arguments[0]);
  if (rule.form == Form::Concatenation) return apply_concatenation(rule.concatenation, shape, arguments);
  if (rule.form == Form::Assertion) return apply_assertion(rule.assertion, arguments);
  if (!any_known() && rule.operands != 1) return false;
  Launch launch;
  if (!read_launch(rule, arguments, launch)) return false;
  keep_numbers(launch.state, std::min(rule.function.state_bytes, kStateBytes));
  const Tensor& output = launch.tensors[0];
  const std::size_t extent = launch.extent_bytes(0);
  if (!may_be_computed(rule, launch)) {
    mark_unknown(output.data, extent);
    return true;
  }
  expect_known(output.data, extent);
  Touches touches;
  for (std::size_t i = 0; i < rule.operands; ++i) {
    touches.push_back({launch.tensors[i].data, launch.extent_bytes(i), i == 0});
  }
  enqueue_value([rule, launch = std::move(launch)] { carry_out(rule, launch); }, std::move(touches));
  return true;
}

}  // namespace ph
