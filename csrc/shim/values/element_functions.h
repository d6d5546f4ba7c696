// The functors of PyTorch's elementwise kernels that we can compute: what they do, known from their names, and
// where their constants lie in the functor's bytes.
//
// Source of names and layouts: aten/src/ATen/native/cuda (Loops.cuh, BinaryInternal.h, FillKernel.cu, Copy.cu,
// CompareKernels.cu, CompareEQKernel.cu), and the generated UfuncCUDA_add.cu, as of PyTorch 2.15.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "shim/values/scalars.h"

namespace ph {

inline constexpr std::size_t kMostOperands = 3;

enum class Operator : std::uint8_t {
  First,
  Add,
  Multiply,
  Divide,
  FloorDivide,
  Remainder,
  Compare,
  CompareEqual,
  And,
  Or,
  Xor,
  Negate,
  Absolute,
  SquareRoot,
  BitwiseNot,
  LogicalNot,
  Where,
};

struct ElementFunction {
  // An operand is loaded from memory, or kept in the functor at this offset.
  struct Operand {
    Scalar type = Scalar::None;
    int kept_at = -1;
  };
  Operator operation = Operator::First;
  std::array<Operand, kMostOperands> operands{};
  std::size_t operand_count = 0;
  Scalar computed = Scalar::None;
  Scalar output = Scalar::None;
  int alpha_at = -1;       // Add: the factor of the second operand
  int comparison_at = -1;  // Compare, CompareEqual: which
  std::size_t state_bytes = 1;

  std::size_t loads() const noexcept;  // operands that come from memory
  Number operator()(std::span<const Number> loaded, const unsigned char* state) const noexcept;
};

// `functor`: its demangled type. Nothing: not one that we compute.
std::optional<ElementFunction> parse_function(std::string_view functor);

// Of an elementwise kernel with this functor: its inputs and its output; 0: not known.
std::size_t operand_count(std::string_view functor);

// The arguments of the first template argument list in `text`, "A" and "B<C, D>" of "F<A, B<C, D> >::G".
std::vector<std::string_view> template_arguments(std::string_view text);

}  // namespace ph
