// Kernels that are carried out on small tensors, so that sizes, counts, flags and offsets keep their values:
// PyTorch's elementwise kernels, contiguous or strided, with or without a change of type, arange, reductions and
// concatenations.
//
// A function is classified once, by its name. Limits: functors that element_functions.h does not list only make
// their output unknown.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/core/api.h"
#include "shim/kernels/kernel_structures.h"
#include "shim/values/assertions.h"
#include "shim/values/element_functions.h"
#include "shim/values/value_reductions.h"

namespace ph {

struct KernelRule {
  // How the kernel's arguments lay out its operands.
  enum class Form : std::uint8_t {
    None,         // not a kernel that we know: nothing is done
    Contiguous,   // (int n, functor, std::array<char*, k>)
    Casting,      // (int n, functor, std::array<char*, k>, calculator, calculator, loader, storer)
    Strided,      // (int n, lambda), which holds calculator, array and functor
    StridedCast,  // likewise, and then the types
    Arange,       // (int n, lambda, T* output)
    Reduction,
    Concatenation,
    Assertion,
  };
  Form form = Form::None;
  std::size_t operands = 0;  // the output and the inputs in memory
  ElementFunction function;
  ReductionRule reduction;
  ConcatenationRule concatenation;
  AssertionRule assertion;
};

PH_EXPORT KernelRule classify_kernel(std::string_view mangled);

// At a launch, before anything is forgotten. True: the values of the output are taken care of. `arguments` as in
// cudaLaunchKernel.
PH_EXPORT bool apply_kernel(const KernelRule& rule, const LaunchShape& shape, void* const* arguments) noexcept;

}  // namespace ph
