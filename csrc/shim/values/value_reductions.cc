#include "shim/values/value_reductions.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "shim/core/addresses.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/values/element_functions.h"
#include "shim/values/tensor_view.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

constexpr std::size_t kConfigBytes = 64;  // ReduceConfig
constexpr std::size_t kLastConfigOffset = 128;

struct Reduction {
  std::size_t inputs = 0;   // per output
  std::size_t outputs = 0;
  Dimensions reduced;       // one tensor: the input
  Dimensions kept;          // two: output and input
  const unsigned char* source = nullptr;
  unsigned char* destination[2] = {};
  double factor = 1;        // of a mean
  const void* buffers[3] = {};  // between blocks, and between launches
  bool is_whole = false;    // one launch makes the one result
};

template <class T>
T at(const void* base, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(base) + offset, sizeof value);
  return value;
}

// The functor and the identity stand before the configuration; the launch's block tells where it begins.
std::optional<std::size_t> find_config(const LaunchShape& shape, const void* operation) noexcept {
  for (std::size_t offset = 0; offset <= kLastConfigOffset; offset += 4) {
    std::int32_t field[14];
    std::memcpy(field, static_cast<const unsigned char*>(operation) + offset, sizeof field);
    const bool element = field[0] >= 1 && field[0] <= 16 && std::has_single_bit(static_cast<unsigned>(field[0]));
    const bool block = field[11] == static_cast<std::int32_t>(shape.block[0]) &&
                       field[12] == static_cast<std::int32_t>(shape.block[1]) && field[13] == field[11] * field[12];
    if (element && block && field[1] >= 1 && field[2] >= 1 && field[5] >= 1) return offset;
  }
  return {};
}

// Where the parts of a ReduceOp begin.
struct Parts {
  std::size_t config;
  std::size_t reduced;
  std::size_t kept;
  std::size_t pointers;
  std::size_t results;  // how many there are
};

std::optional<Parts> find_parts(const LaunchShape& shape, const void* operation) noexcept {
  const auto config = find_config(shape, operation);
  if (!config) return {};
  const std::size_t reduced = *config + kConfigBytes;
  const std::size_t kept = reduced + calculator_bytes(1);
  const std::size_t pointers = (kept + calculator_bytes(2) + 7) / 8 * 8;
  return Parts{*config, reduced, kept, pointers, pointers + 60};
}

// ReduceOp: configuration, OffsetCalculator<1> of the reduced dimensions, OffsetCalculator<2> of the kept ones,
// source, two destinations, three buffers, the first index, whether it adds to the output, whether it is the last of several
// launches, the number of outputs.
bool read_reduction(const ReductionRule& rule, const LaunchShape& shape, const void* operation, Reduction& r) {
  const auto parts = find_parts(shape, operation);
  if (!parts) return false;
  const auto* base = static_cast<const unsigned char*>(operation);
  r.inputs = static_cast<std::size_t>(at<std::int32_t>(base, parts->config + 4));
  r.outputs = static_cast<std::size_t>(at<std::int32_t>(base, parts->config + 8));
  const bool has_sizes =
      read_calculator(base + parts->reduced, 1, r.reduced) && read_calculator(base + parts->kept, 2, r.kept);
  if (!has_sizes) return false;
  const std::size_t pointers = parts->pointers;
  r.source = at<const unsigned char*>(base, pointers);
  r.destination[0] = at<unsigned char*>(base, pointers + 8);
  r.destination[1] = at<unsigned char*>(base, pointers + 16);
  for (std::size_t i = 0; i < 3; ++i) r.buffers[i] = at<const void*>(base, pointers + 24 + 8 * i);
  const bool accumulates = base[pointers + 56] != 0;
  const bool is_final = base[pointers + 57] != 0;
  r.is_whole = !accumulates && is_final && at<std::int32_t>(base, parts->results) == 1;
  if (rule.reducer == Reducer::Mean) r.factor = load(rule.factor, base).as_real();  // MeanOps begins with it
  return is_device_pointer(r.source) && is_device_pointer(r.destination[0]) && r.reduced.elements() == r.inputs &&
         r.kept.elements() == r.outputs;
}

Number combined(Reducer reducer, const Number& a, const Number& b) noexcept {
  const bool integers = a.integral && b.integral;
  const auto unsigned_of = [](const Number& n) { return static_cast<std::uint64_t>(n.integer); };
  switch (reducer) {
    case Reducer::Product:
      if (integers) return whole(static_cast<std::int64_t>(unsigned_of(a) * unsigned_of(b)));
      return real(a.as_real() * b.as_real());
    case Reducer::Max:
      if (integers) return whole(std::max(a.integer, b.integer));
      return real(std::isnan(a.real) || a.real > b.real ? a.real : b.real);
    case Reducer::Min:
      if (integers) return whole(std::min(a.integer, b.integer));
      return real(std::isnan(a.real) || a.real < b.real ? a.real : b.real);
    case Reducer::Any: return whole(a.is_true() || b.is_true());
    case Reducer::All: return whole(a.is_true() && b.is_true());
    default:
      if (integers) return whole(static_cast<std::int64_t>(unsigned_of(a) + unsigned_of(b)));
      return real(a.as_real() + b.as_real());
  }
}

Number first_of(const ReductionRule& rule, const Number& number) noexcept {
  const bool logical = rule.reducer == Reducer::Any || rule.reducer == Reducer::All;
  if (logical) return whole(number.is_true());
  return is_integral(rule.output) ? converted(rule.output, number) : number;
}

// From its first byte to its last.
std::size_t source_bytes(const ReductionRule& rule, const Reduction& r) noexcept {
  return r.reduced.extent(0) + r.kept.extent(1) + size_of(rule.input);
}

// Nothing: some input of the output is not known, or what is made of it is undefined. `all_known`: all are.
std::optional<Number> reduced_value(const ReductionRule& rule, const Reduction& r, std::size_t output, bool all_known) {
  const unsigned char* base = r.source + r.kept.offset(1, output);
  Number value;
  for (std::size_t i = 0; i < r.inputs; ++i) {
    const unsigned char* from = base + r.reduced.offset(0, i);
    if (!all_known && !known_now().covers(from, size_of(rule.input))) return {};
    const Number next = first_of(rule, load(rule.input, from));
    if (!next.defined) return {};
    value = i == 0 ? next : combined(rule.reducer, value, next);
  }
  if (rule.reducer == Reducer::Mean) value = real(value.as_real() * r.factor);
  return value;
}

void carry_out(const ReductionRule& rule, const Reduction& r) {
  const bool all_known = known_now().covers(r.source, source_bytes(rule, r));
  for (std::size_t o = 0; o < r.outputs; ++o) {
    unsigned char* to = r.destination[0] + r.kept.offset(0, o);
    const auto value = reduced_value(rule, r, o, all_known);
    if (!value) {
      known_now().remove(to, size_of(rule.output));
      continue;
    }
    store(rule.output, to, *value);
    known_now().add(to, size_of(rule.output));
  }
}

Reducer reducer_of(std::string_view operation) noexcept {
  constexpr std::pair<std::string_view, Reducer> kReducers[] = {
      {"sum_functor<", Reducer::Sum},          {"prod_functor<", Reducer::Product}, {"MaxNanFunctor<", Reducer::Max},
      {"MinNanFunctor<", Reducer::Min},        {"or_kernel_cuda", Reducer::Any},    {"and_kernel_cuda", Reducer::All},
      {"at::native::MeanOps<", Reducer::Mean},
  };
  for (const auto& [name, reducer] : kReducers) {
    if (operation.find(name) != std::string_view::npos) return reducer;
  }
  return Reducer::Unknown;
}

std::size_t number_in(std::string_view text) noexcept {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::optional<ReductionRule> parse_reduction(std::string_view name) {
  if (!name.starts_with("void at::native::reduce_kernel<")) return {};
  const auto kernel = template_arguments(name);
  if (kernel.size() != 3 || !kernel[2].starts_with("at::native::ReduceOp<")) return {};
  const auto operation = template_arguments(kernel[2]);
  if (operation.size() < 4) return {};
  ReductionRule rule{reducer_of(operation[1]), scalar_named(operation[0]), scalar_named(operation[3])};
  if (rule.input == Scalar::None || rule.output == Scalar::None) rule.reducer = Reducer::Unknown;
  if (rule.reducer != Reducer::Mean) return rule;
  // MeanOps<element, accumulator, factor, output>
  const auto mean = template_arguments(operation[1]);
  rule.factor = mean.size() == 4 ? scalar_named(mean[2]) : Scalar::None;
  if (rule.factor == Scalar::None) rule.reducer = Reducer::Unknown;
  return rule;
}

bool apply_reduction(const ReductionRule& rule, const LaunchShape& shape, const void* operation) noexcept {
  if (!any_known()) return false;
  Reduction r;
  if (!read_reduction(rule, shape, operation, r)) return false;
  forget_reached({r.buffers[0], r.buffers[1], r.buffers[2]});
  const std::size_t extent = r.kept.extent(0) + size_of(rule.output);
  const bool small = r.inputs * r.outputs <= kMostIntegers && extent <= config().value_bytes;
  if (rule.reducer == Reducer::Unknown || !r.is_whole || !small || !is_known(r.source, size_of(rule.input))) {
    forget_reached({r.destination[0], r.destination[1]});
    return true;
  }
  expect_known(r.destination[0], extent);
  Touches touches{{r.source, source_bytes(rule, r), false}, {r.destination[0], extent, true}};
  enqueue_value([rule, r = std::move(r)] { carry_out(rule, r); }, std::move(touches));
  return true;
}

std::vector<const void*> reduction_results(const LaunchShape& shape, const void* operation) {
  const auto parts = find_parts(shape, operation);
  if (!parts) return {};
  const std::size_t first = parts->pointers + sizeof(void*);  // behind the source
  std::vector<const void*> results{at<const void*>(operation, first)};
  if (at<std::int32_t>(operation, parts->results) > 1) {
    results.push_back(at<const void*>(operation, first + sizeof(void*)));
  }
  return results;
}

std::optional<ConcatenationRule> parse_concatenation(std::string_view name) {
  if (name.find("::CatArrayBatchedCopy") == std::string_view::npos) return {};
  const auto arguments = template_arguments(name);
  constexpr std::string_view kOpaque = "at::native::(anonymous namespace)::OpaqueType<";
  if (arguments.size() < 5 || !arguments[0].starts_with(kOpaque)) return {};
  ConcatenationRule rule;
  rule.element_bytes = number_in(arguments[0].substr(kOpaque.size()));
  rule.index_bytes = arguments[1] == "unsigned int" ? 4 : 8;
  rule.dimensions = number_in(arguments[2]);
  rule.capacity = number_in(arguments[3]);
  rule.has_strides = number_in(arguments[4]) > 1;
  if (name.find("::CatArrayBatchedCopy_vectorized<") != std::string_view::npos) {
    rule.unit_elements = number_in(arguments[6]);
    if (rule.unit_elements == 0) return {};
  }
  if (rule.element_bytes == 0 || rule.capacity == 0 || rule.dimensions < 1 || rule.dimensions > kMostCatDimensions) {
    return {};
  }
  return rule;
}

namespace {

// The arguments: output, inputs (pointers; then offset, size along the dimension and number of elements of each; whether
// each is contiguous; and, where the kernel has them, sizes and strides of each), sizes and strides of the output, the
// dimension, and its stride. The vectorized kernel's sizes and strides are in vectors, its offsets along the dimension in
// elements, which the last argument makes elements of the output.
class Concatenation {
 public:
  Concatenation(const ConcatenationRule& rule, void* const* arguments) noexcept
      : rule_(rule), arguments_(arguments), inputs_(arguments[1]) {}

  std::size_t elements(std::size_t input) const noexcept { return field(input, 2); }
  const unsigned char* source(std::size_t input) const noexcept {
    return at<const unsigned char*>(inputs_, input * sizeof(void*));
  }
  std::size_t unit_bytes() const noexcept { return rule_.element_bytes * rule_.unit_elements; }
  std::size_t units(std::size_t input) const noexcept { return elements(input) / rule_.unit_elements; }

  unsigned char* destination(std::size_t input, std::size_t unit) const noexcept {
    const std::size_t start = field(input, 0) * index(arguments_[4], 0) / rule_.unit_elements;
    return at<unsigned char*>(arguments_[0], 0) +
           unit_bytes() * (start + offset(arguments_[2], dimension_size(input), unit));
  }
  const unsigned char* source(std::size_t input, std::size_t unit) const noexcept {
    if (is_contiguous(input)) return source(input) + unit_bytes() * unit;
    const std::size_t first =
        (contiguous_flags() + rule_.capacity + rule_.index_bytes - 1) / rule_.index_bytes * rule_.index_bytes;
    const auto* strides =
        static_cast<const unsigned char*>(inputs_) + first + input * 2 * kMostCatDimensions * rule_.index_bytes;
    return source(input) + unit_bytes() * offset(strides, dimension_size(input), unit);
  }
  // Whether the input lies in the output as it is.
  bool is_one_piece(std::size_t input) const noexcept {
    return at<std::int32_t>(arguments_[3], 0) == 0 && !rule_.has_strides &&
           units(input) * rule_.unit_elements == elements(input) &&
           destination(input, units(input) - 1) == destination(input, 0) + unit_bytes() * (units(input) - 1);
  }
  // How many units lie beside each other in the input and in the output: its part of the dimension, and all within.
  std::size_t run_units(std::size_t input) const noexcept {
    if (!is_contiguous(input)) return 1;
    const auto dimension = static_cast<std::size_t>(at<std::int32_t>(arguments_[3], 0));
    std::size_t run = 1;
    for (std::size_t d = rule_.dimensions; d-- > dimension;) {
      if (index(arguments_[2], (kMostCatDimensions + d) * rule_.index_bytes) != run) return 1;
      run *= d == dimension ? dimension_size(input) : index(arguments_[2], d * rule_.index_bytes);
    }
    return run != 0 && units(input) % run == 0 ? run : 1;
  }

 private:
  std::size_t contiguous_flags() const noexcept {
    return 3 * rule_.capacity * rule_.index_bytes + rule_.capacity * sizeof(void*);
  }
  bool is_contiguous(std::size_t input) const noexcept {
    return !rule_.has_strides || at<bool>(inputs_, contiguous_flags() + input);
  }
  std::size_t index(const void* base, std::size_t offset) const noexcept {
    return rule_.index_bytes == 4 ? at<std::uint32_t>(base, offset) : at<std::uint64_t>(base, offset);
  }
  std::size_t field(std::size_t input, std::size_t which) const noexcept {
    return index(inputs_, rule_.capacity * sizeof(void*) + (which * rule_.capacity + input) * rule_.index_bytes);
  }
  std::size_t dimension_size(std::size_t input) const noexcept {
    const std::size_t size = field(input, 1);
    return rule_.unit_elements == 1 ? size : size * index(arguments_[4], 0) / rule_.unit_elements;
  }
  // `shape`: sizes, then strides.
  std::size_t offset(const void* shape, std::size_t dimension_size, std::size_t linear) const noexcept {
    const auto dimension = static_cast<std::size_t>(at<std::int32_t>(arguments_[3], 0));
    std::size_t sum = 0;
    for (std::size_t d = rule_.dimensions - 1; d >= 1; --d) {
      const std::size_t size = d == dimension ? dimension_size : index(shape, d * rule_.index_bytes);
      if (size == 0) return 0;
      sum += linear % size * index(shape, (kMostCatDimensions + d) * rule_.index_bytes);
      linear /= size;
    }
    return sum + linear * index(shape, kMostCatDimensions * rule_.index_bytes);
  }

  const ConcatenationRule& rule_;
  void* const* arguments_;
  const void* inputs_;
};

}  // namespace

// The grid's y is the number of inputs.
bool apply_concatenation(const ConcatenationRule& rule, const LaunchShape& shape, void* const* arguments) noexcept {
  if (!any_known()) return false;
  const std::size_t inputs = shape.grid[1];
  if (inputs > rule.capacity) return false;
  const Concatenation of(rule, arguments);
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < inputs; ++i) {
    if (of.elements(i) == 0) continue;
    const bool fits = of.elements(i) <= kDeviceSpanBytes / rule.element_bytes;
    if (!fits || !is_device_pointer(of.source(i))) return false;
    pieces += of.is_one_piece(i) ? 1 : of.units(i) / of.run_units(i);
  }
  if (pieces > kMostElements) {
    if (!is_device_pointer(of.destination(0, 0))) return false;
    forget_reached({at<const void*>(arguments[0], 0)});
    return true;
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    if (of.elements(i) == 0) continue;
    if (of.is_one_piece(i)) {
      copy_values(of.destination(i, 0), of.source(i), of.elements(i) * rule.element_bytes, false);
      continue;
    }
    const std::size_t run = of.run_units(i);
    for (std::size_t unit = 0; unit < of.units(i); unit += run) {
      copy_values(of.destination(i, unit), of.source(i, unit), of.unit_bytes() * run, false);
    }
  }
  return true;
}

}  // namespace ph
