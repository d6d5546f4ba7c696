// Seeds that PyTorch gets from the machine. On hardware every run has others; here every rank has, and each run of a command the same.

#include <atomic>
#include <cstdint>

#include "shim/channel/rank.h"
#include "shim/core/api.h"
#include "shim/values/philox.h"

namespace {

std::atomic<std::uint64_t> calls = 0;

}  // namespace

// c10::detail::getNonDeterministicRandom(bool is_cuda): where a generator's seed() and the first seed of the CUDA
// generators come from, of 53 bits. Source: c10/core/GeneratorImpl.cpp, the same from 2.5 to 2.15.
extern "C" PH_EXPORT std::uint64_t _ZN3c106detail25getNonDeterministicRandomEb(bool /*is_cuda*/) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 53) - 1;
  const std::uint64_t call = calls.fetch_add(1, std::memory_order_relaxed);
  const auto words =
      ph::philox({static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32)}, {ph::global_rank()});
  return (std::uint64_t{words[0]} << 32 | words[1]) & kMask;
}
