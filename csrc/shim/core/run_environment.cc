#include "shim/core/run_environment.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace ph {

namespace {

// The first one is set in every process of a run.
constexpr std::array kNames{"PHANTORA_RUN_DIR", "PHANTORA_RANK", "PHANTORA_OWN_RANKS"};

// Copies that are never freed: other threads may hold them.
std::array<const char*, kNames.size()> kept{};

__attribute__((constructor)) void keep_at_load() { keep_run_environment(); }

}  // namespace

void keep_run_environment() noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const char* value = std::getenv(kNames[i]);
    kept[i] = value != nullptr ? strdup(value) : nullptr;
  }
}

const char* run_variable(RunVariable which) noexcept {
  const auto index = static_cast<std::size_t>(which);
  if (const char* value = std::getenv(kNames[index]); value != nullptr) return value;
  return std::getenv(kNames.front()) == nullptr ? kept[index] : nullptr;
}

}  // namespace ph
