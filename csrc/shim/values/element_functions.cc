#include "shim/values/element_functions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace ph {

namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)::";

bool strip(std::string_view& text, std::string_view prefix) noexcept {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string_view trimmed(std::string_view text) noexcept {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Commas outside of brackets separate.
std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (c != ',' || depth != 0) continue;
    parts.push_back(trimmed(list.substr(begin, i - begin)));
    begin = i + 1;
  }
  parts.push_back(trimmed(list.substr(begin)));
  return parts;
}

// The parameter types of the lambda that the name ends with: "...::{lambda(long, long)#1}".
std::vector<Scalar> lambda_parameters(std::string_view name) {
  const std::size_t begin = name.rfind("{lambda(");
  const std::size_t end = name.rfind(")#");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  std::vector<Scalar> types;
  for (const std::string_view type : split(name.substr(begin + 8, end - begin - 8))) {
    types.push_back(scalar_named(type));
  }
  return types;
}

int aligned(std::size_t offset, Scalar type) noexcept {
  const std::size_t size = size_of(type);
  return static_cast<int>((offset + size - 1) / size * size);
}

ElementFunction from_memory(Operator operation, std::span<const Scalar> operands, Scalar output) {
  ElementFunction f;
  f.operation = operation;
  f.operand_count = operands.size();
  for (std::size_t i = 0; i < operands.size(); ++i) f.operands[i].type = operands[i];
  f.computed = operands.empty() ? output : computed_in(operands.back());
  f.output = output;
  return f;
}

// The operand is a constant of type `computed`, after `offset` bytes of the functor.
void keep(ElementFunction& f, std::size_t operand, std::size_t offset) {
  const int at = aligned(offset, f.computed);
  f.operands[operand] = {f.computed, at};
  f.state_bytes = static_cast<std::size_t>(at) + size_of(f.computed);
}

std::optional<ElementFunction> parse_addition(std::string_view name) {
  const Scalar type = scalar_named(template_arguments(name).front());
  if (type == Scalar::None) return {};
  const Scalar both[] = {type, type};
  ElementFunction f = from_memory(Operator::Add, both, type);
  const bool on_self = name.starts_with("CUDAFunctorOnSelf_add<");
  if (on_self) keep(f, 1, 0);
  if (name.starts_with("CUDAFunctorOnOther_add<")) keep(f, 0, 0);
  f.alpha_at = f.loads() == 2 ? 0 : static_cast<int>(f.state_bytes);
  f.state_bytes = static_cast<std::size_t>(f.alpha_at) + size_of(f.computed);
  return f;
}

struct BinaryOperation {
  Operator operation;
  Scalar computed;
  std::size_t state_bytes;  // 4: the comparison's number
};

std::optional<BinaryOperation> parse_binary_operation(std::string_view name) {
  strip(name, kAnonymous);
  strip(name, "binary_internal::");
  constexpr std::pair<std::string_view, Operator> kTemplates[] = {
      {"MulFunctor<", Operator::Multiply},   {"DivFunctor<", Operator::Divide},
      {"BitwiseAndFunctor<", Operator::And}, {"BitwiseOrFunctor<", Operator::Or},
      {"BitwiseXorFunctor<", Operator::Xor}, {"CompareEqFunctor<", Operator::CompareEqual},
  };
  for (const auto& [prefix, operation] : kTemplates) {
    if (!name.starts_with(prefix)) continue;
    const Scalar type = scalar_named(template_arguments(name).front());
    return BinaryOperation{operation, type, operation == Operator::CompareEqual ? 4u : 1u};
  }
  // Lambdas; their rounding is plain for integers alone.
  const std::vector<Scalar> types = lambda_parameters(name);
  if (types.size() != 2 || !is_integral(types[0])) return {};
  if (name.starts_with("div_floor_kernel_cuda(")) return BinaryOperation{Operator::FloorDivide, types[0], 1};
  if (name.starts_with("div_trunc_kernel_cuda(")) return BinaryOperation{Operator::Divide, types[0], 1};
  strip(name, "at::native::");
  if (name.starts_with("remainder_kernel_cuda(")) return BinaryOperation{Operator::Remainder, types[0], 1};
  return {};
}

// BinaryFunctor<A, B, R, F>, AUnaryFunctor (keeps A) and BUnaryFunctor (keeps B).
std::optional<ElementFunction> parse_binary(std::string_view name) {
  const auto arguments = template_arguments(name);
  if (arguments.size() != 4) return {};
  std::string_view inner = arguments[3];
  strip(inner, "at::native::");
  const auto operation = parse_binary_operation(inner);
  const Scalar operands[] = {scalar_named(arguments[0]), scalar_named(arguments[1])};
  const Scalar output = scalar_named(arguments[2]);
  if (!operation || operation->computed == Scalar::None || operands[0] == Scalar::None || operands[1] == Scalar::None ||
      output == Scalar::None) {
    return {};
  }
  ElementFunction f = from_memory(operation->operation, operands, output);
  f.computed = operation->computed;
  f.state_bytes = operation->state_bytes;
  if (operation->operation == Operator::CompareEqual) f.comparison_at = 0;
  if (name.starts_with("AUnaryFunctor<")) keep(f, 0, operation->state_bytes);
  if (name.starts_with("BUnaryFunctor<")) keep(f, 1, operation->state_bytes);
  return f;
}

std::optional<ElementFunction> parse_comparison(std::string_view name) {
  const Scalar type = scalar_named(template_arguments(name).front());
  if (type == Scalar::None) return {};
  const Scalar both[] = {type, type};
  ElementFunction f = from_memory(Operator::Compare, both, Scalar::Bool);
  f.computed = type;
  f.comparison_at = 0;
  f.state_bytes = 4;
  if (name.starts_with("compare_scalar_kernel<")) keep(f, 1, 4);
  return f;
}

// Kernels whose functor is a lambda inside the function that launches them.
std::optional<ElementFunction> parse_lambda(std::string_view name) {
  const std::vector<Scalar> types = lambda_parameters(name);
  if (types.empty() || types.size() > kMostOperands) return {};
  if (std::find(types.begin(), types.end(), Scalar::None) != types.end()) return {};
  const Scalar type = types.back();
  if (name.starts_with("direct_copy_kernel_cuda(")) return from_memory(Operator::First, types, type);
  if (name.starts_with("converting_copy_kernel_cuda<")) {
    const auto arguments = template_arguments(name);
    const Scalar output = arguments.size() == 2 ? scalar_named(arguments[1]) : Scalar::None;
    if (output == Scalar::None) return {};
    return from_memory(Operator::First, types, output);
  }
  if (name.starts_with("neg_kernel_cuda(")) return from_memory(Operator::Negate, types, type);
  if (name.starts_with("sqrt_kernel_cuda(")) return from_memory(Operator::SquareRoot, types, type);
  if (name.starts_with("bitwise_not_kernel_cuda(")) {
    return from_memory(type == Scalar::Bool ? Operator::LogicalNot : Operator::BitwiseNot, types, type);
  }
  if (name.starts_with("logical_not_kernel_cuda(")) return from_memory(Operator::LogicalNot, types, Scalar::Bool);
  if (name.starts_with("where_kernel_impl(") && types.size() == 3) return from_memory(Operator::Where, types, type);
  return {};
}

bool compares(int which, double a, double b) noexcept {
  switch (which) {  // CompareKernels.cu: enum class OpType {GE, GT, LE, LT}
    case 0: return a >= b;
    case 1: return a > b;
    case 2: return a <= b;
    default: return a < b;
  }
}

bool compares(int which, std::int64_t a, std::int64_t b) noexcept {
  switch (which) {
    case 0: return a >= b;
    case 1: return a > b;
    case 2: return a <= b;
    default: return a < b;
  }
}

// Of what is not undefined.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) noexcept {
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

// Overflow wraps, as on the GPU.
std::int64_t on_integers(Operator operation, std::int64_t a, std::int64_t b) noexcept {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (operation) {
    case Operator::Add: return static_cast<std::int64_t>(x + y);
    case Operator::Multiply: return static_cast<std::int64_t>(x * y);
    case Operator::Divide: return b == -1 ? static_cast<std::int64_t>(0 - x) : a / b;
    case Operator::FloorDivide: return floor_divide(a, b);
    case Operator::Remainder: return static_cast<std::int64_t>(x - static_cast<std::uint64_t>(floor_divide(a, b)) * y);
    case Operator::And: return a & b;
    case Operator::Or: return a | b;
    case Operator::Xor: return a ^ b;
    case Operator::Negate: return static_cast<std::int64_t>(0 - x);
    case Operator::Absolute: return a < 0 ? static_cast<std::int64_t>(0 - x) : a;
    case Operator::BitwiseNot: return ~a;
    default: return a;
  }
}

// By zero, and of the least number by -1.
bool is_undefined(Operator operation, Scalar type, std::int64_t a, std::int64_t b) noexcept {
  const bool divides =
      operation == Operator::Divide || operation == Operator::FloorDivide || operation == Operator::Remainder;
  if (!divides) return false;
  const Number negated = converted(type, whole(on_integers(Operator::Negate, a, 0)));
  return b == 0 || (b == -1 && a != 0 && negated.integer == a);
}

double on_reals(Operator operation, double a, double b) noexcept {
  switch (operation) {
    case Operator::Add: return a + b;
    case Operator::Multiply: return a * b;
    case Operator::Divide: return a / b;
    case Operator::Negate: return -a;
    case Operator::Absolute: return std::fabs(a);
    case Operator::SquareRoot: return std::sqrt(a);
    default: return a;
  }
}

}  // namespace

std::vector<std::string_view> template_arguments(std::string_view text) {
  const std::size_t begin = text.find('<');
  if (begin == std::string_view::npos) return {{}};
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    depth += (text[i] == '<') - (text[i] == '>');
    if (depth == 0) return split(text.substr(begin + 1, i - begin - 1));
  }
  return {{}};
}

std::size_t ElementFunction::loads() const noexcept {
  return static_cast<std::size_t>(std::count_if(operands.begin(), operands.begin() + operand_count,
                                                [](const Operand& operand) { return operand.kept_at < 0; }));
}

Number ElementFunction::operator()(std::span<const Number> loaded, const unsigned char* state) const noexcept {
  std::array<Number, kMostOperands> in;
  std::size_t next = 0;
  for (std::size_t i = 0; i < operand_count; ++i) {
    const Operand& operand = operands[i];
    in[i] = operand.kept_at < 0 ? loaded[next++] : load(operand.type, state + operand.kept_at);
  }
  if (operation == Operator::First) return in[0];
  if (operation == Operator::Where) return in[0].is_true() ? in[1] : in[2];
  if (operation == Operator::LogicalNot) return whole(!in[0].is_true());
  const Number a = converted(computed, in[0]);
  Number b = converted(computed, in[1]);
  if (!a.defined || !b.defined) return undefined();
  int which = 0;
  if (comparison_at >= 0) std::memcpy(&which, state + comparison_at, sizeof which);
  const bool integers = is_integral(computed);
  if (operation == Operator::Compare) {
    return whole(integers ? compares(which, a.integer, b.integer) : compares(which, a.real, b.real));
  }
  if (operation == Operator::CompareEqual) {  // CompareEQKernel.cu: enum class EqOpType {EQ, NE}
    const bool equal = integers ? a.integer == b.integer : a.real == b.real;
    return whole(which == 0 ? equal : !equal);
  }
  if (alpha_at >= 0) {
    const Number alpha = load(computed, state + alpha_at);
    if (!integers) return converted(computed, real(std::fma(b.real, alpha.real, a.real)));  // as nvcc fuses it
    b = whole(on_integers(Operator::Multiply, b.integer, alpha.integer));
  }
  if (integers && is_undefined(operation, computed, a.integer, b.integer)) return undefined();
  if (integers) return converted(computed, whole(on_integers(operation, a.integer, b.integer)));
  return converted(computed, real(on_reals(operation, a.real, b.real)));
}

std::optional<ElementFunction> parse_function(std::string_view functor) {
  strip(functor, "at::native::");
  strip(functor, kAnonymous);
  if (functor.starts_with("FillFunctor<")) {
    ElementFunction f = from_memory(Operator::First, {}, scalar_named(template_arguments(functor).front()));
    if (f.output == Scalar::None) return {};
    f.operand_count = 1;
    keep(f, 0, 0);
    return f;
  }
  if (functor.starts_with("AbsFunctor<")) {
    const Scalar type[] = {scalar_named(template_arguments(functor).front())};
    if (type[0] == Scalar::None) return {};
    return from_memory(Operator::Absolute, type, type[0]);
  }
  if (functor.starts_with("CUDAFunctor")) return parse_addition(functor);
  if (functor.starts_with("CompareFunctor<") || functor.starts_with("compare_scalar_kernel<")) {
    return parse_comparison(functor);
  }
  if (functor.starts_with("BinaryFunctor<") || functor.starts_with("AUnaryFunctor<") ||
      functor.starts_with("BUnaryFunctor<")) {
    return parse_binary(functor);
  }
  return parse_lambda(functor);
}

std::size_t operand_count(std::string_view functor) {
  if (const auto function = parse_function(functor)) return 1 + function->loads();
  if (functor.ends_with('}') && functor.rfind("{lambda(") != std::string_view::npos) {
    const std::size_t begin = functor.rfind("{lambda(") + 8;
    const std::size_t end = functor.rfind(")#");
    if (end == std::string_view::npos || end < begin) return 0;
    return end == begin ? 1 : 1 + split(functor.substr(begin, end - begin)).size();
  }
  strip(functor, "at::native::");
  if (functor.starts_with("BinaryFunctor<")) return 3;
  return functor.starts_with("AUnaryFunctor<") || functor.starts_with("BUnaryFunctor<") ? 2 : 0;
}

}  // namespace ph
