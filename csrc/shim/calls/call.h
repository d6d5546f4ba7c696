// The guard that every modelled body starts with.
#pragma once

#include <cstddef>

#include "shim/core/api.h"
#include "shim/core/own_code.h"
#include "shim/profiling/activities.h"

namespace ph {

// First statement of a modelled body. Counts the call and, on a thread that drives the GPU, advances the
// rank's host clock by the host-time model.
class PH_EXPORT Call {
 public:
  Call(ApiTable& table, std::size_t row, HostCost cost = HostCost::Light) noexcept;

 private:
  OwnCode own_;
  profiling::HostCall activity_;
};

PH_EXPORT void count_ignored(ApiTable& table, std::size_t row) noexcept;

// This process has what tells of its Python modules (phantora_py/rank/runtime.py).
void note_runtime() noexcept;

}  // namespace ph
