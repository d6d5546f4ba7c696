// Assertions that a program makes on its GPU (torch._assert_async), of values that are known.
//
// A kernel whose assertion fails leaves the process without a GPU: what waits for work from then on fails. Source: CUDA
// C++ Programming Guide, "Assertion". Limits: calls that do not wait go on; an assertion in a CUDA graph, or of a value
// that nobody knows, holds.
#pragma once

#include <cstddef>
#include <string_view>

#include "shim/core/api.h"
#include "shim/values/scalars.h"

namespace ph {

struct AssertionRule {
  Scalar type = Scalar::None;  // None: not an assertion
  std::size_t parts = 1;  // of a number: a complex one has two
};

// `name`: demangled.
AssertionRule parse_assertion(std::string_view name);
// `arguments`: where the value is, and the text. False: the value is not known.
bool apply_assertion(const AssertionRule& rule, void* const* arguments) noexcept;

// Whether one has failed in this process.
PH_EXPORT bool assertion_failed() noexcept;

}  // namespace ph
