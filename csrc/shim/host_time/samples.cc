#include "shim/host_time/samples.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shim/channel/rank.h"
#include "shim/core/json.h"
#include "shim/host_time/work.h"

namespace ph {

namespace {

struct Sample {
  Nanoseconds spent_ns = 0;
  WorkCounts works{};
  std::array<std::uint64_t, kHostCosts> calls{};
};

std::mutex mutex;
Sample sample;

template <std::size_t kSize>
auto named(const char* const (&names)[kSize], const std::array<std::uint64_t, kSize>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> members;
  for (std::size_t i = 0; i < kSize; ++i) members.emplace_back(names[i], static_cast<std::int64_t>(counts[i]));
  return members;
}

}  // namespace

void sample_work(Nanoseconds spent_ns) noexcept {
  settle_work();
  const WorkCounts done = take_due();
  const std::lock_guard lock(mutex);
  sample.spent_ns += spent_ns;
  for (std::size_t i = 0; i < kWorks; ++i) sample.works[i] += done[i];
}

void sample_call(HostCost cost) noexcept {
  const std::lock_guard lock(mutex);
  ++sample.calls[static_cast<std::size_t>(cost)];
}

void emit_sample() noexcept {
  Sample ended;
  {
    const std::lock_guard lock(mutex);
    ended = std::exchange(sample, {});
  }
  emit_statistics(payload_text(payloads::HostSample{
      .spent_ns = ended.spent_ns,
      .works = named(kWorkNames, ended.works),
      .calls = named(kHostCostNames, ended.calls),
  }));
}

}  // namespace ph
