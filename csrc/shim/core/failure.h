// Ends of a process that is ours to end.
#pragma once

#include <string>

#include "shim/core/api.h"

namespace ph {

// Writes "phantora: internal error: ..." to standard error and exits with 70.
[[noreturn]] PH_EXPORT void fail_internal(const std::string& what) noexcept;
// Likewise for what the user has to change; exits with 2.
[[noreturn]] PH_EXPORT void fail_usage(const std::string& what) noexcept;

}  // namespace ph
