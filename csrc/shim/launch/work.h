// Records of device work that is not a launch of a registered kernel: what vendor libraries do on a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "shim/core/api.h"
#include "shim/core/device.h"

namespace ph {

PH_EXPORT void emit_kernel(StreamRef stream, std::uint32_t signature) noexcept;
// The same from a signature's JSON, for calls that are not hot.
PH_EXPORT void emit_kernel(StreamRef stream, std::string_view signature_json) noexcept;

// A host function takes no virtual time and runs on the value thread, after all values before it are there.
PH_EXPORT void launch_host_function(StreamRef stream, std::function<void()> function) noexcept;

using NamedSize = std::pair<const char*, std::int64_t>;
// Signature of a library call: {"kind": "library", "library": .., "operation": .., "type": .., sizes}.
PH_EXPORT std::string library_signature(const char* library, const char* operation, const char* type,
                                        std::initializer_list<NamedSize> sizes);

}  // namespace ph
