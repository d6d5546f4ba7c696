// Records of device work that is not a launch of a registered kernel: what vendor libraries do on a stream.
#pragma once

#include <cstdint>
#include <functional>

#include "protocol/payloads.h"
#include "shim/channel/rank.h"
#include "shim/core/api.h"
#include "shim/core/device.h"
#include "shim/core/json.h"

namespace ph {

PH_EXPORT void emit_kernel(StreamRef stream, std::uint32_t signature) noexcept;

// The same from what the signature says, for calls that are not hot.
template <class Signature>
void emit_kernel(StreamRef stream, const Signature& signature) noexcept {
  if (!attached()) return;  // a signature met here would never be announced
  emit_kernel(stream, intern_signature(payload_text(signature)));
}

// A host function takes no virtual time and runs on the value thread, after all values before it are there.
PH_EXPORT void launch_host_function(StreamRef stream, std::function<void()> function) noexcept;

}  // namespace ph
