// Seeds that PyTorch gets from the machine: on hardware every run has others, and what is drawn with them decides nothing.

#include <cstdint>
#include <mutex>
#include <set>

#include "shim/core/api.h"
#include "shim/core/failure.h"
#include "shim/values/pytorch.h"

namespace {

// Never destroyed: threads may outlive static destructors.
std::mutex mutex;
auto& seeds = *new std::set<std::uint64_t>;

}  // namespace

// c10::detail::getNonDeterministicRandom(bool is_cuda): where a generator's seed() and the first seed of the CUDA
// generators come from. Source: c10/core/GeneratorImpl.cpp, the same from 2.5 to 2.15.
extern "C" PH_EXPORT std::uint64_t _ZN3c106detail25getNonDeterministicRandomEb(bool is_cuda) {
  using Draw = std::uint64_t (*)(bool);
  static const auto draw = reinterpret_cast<Draw>(ph::pytorch_function("_ZN3c106detail25getNonDeterministicRandomEb"));
  if (draw == nullptr)
    ph::fail_internal("PyTorch's libc10 has no getNonDeterministicRandom, which its own libraries call");
  const std::uint64_t seed = draw(is_cuda);
  const std::lock_guard lock(mutex);
  seeds.insert(seed);
  return seed;
}

// Whether a generator's seed is one of these.
extern "C" PH_EXPORT bool ph_is_from_entropy(std::uint64_t seed) {
  const std::lock_guard lock(mutex);
  return seeds.contains(seed);
}
