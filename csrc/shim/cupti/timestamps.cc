// The clock of a profiler: by default that of the host, in nanoseconds, or a function of its own.
#include <atomic>

#include "shim/core/config.h"
#include "shim/cupti/cupti.h"
#include "shim/libc/time_stamp_counter.h"

using namespace ph;

namespace {

// Of a clock that moves with virtual time, two reads in a row are so near each other.
constexpr Nanoseconds kMostApartNs = 3;

enum class Clock : std::uint8_t { Host, Counter, Own };
std::atomic<Clock> clock_kind{Clock::Host};
std::atomic<std::uint64_t> own_at_zero{0};

bool follow_counter(CUpti_TimestampCallbackFunc read) noexcept {
  const std::uint64_t before = counter_reads();
  read();
  return counter_reads() != before;
}

}  // namespace

namespace ph::cupti {

std::uint64_t timestamp(Nanoseconds time_ns) noexcept {
  switch (clock_kind.load(std::memory_order_relaxed)) {
    case Clock::Counter: return ticks_at(time_ns);
    case Clock::Own: return own_at_zero.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(time_ns);
    case Clock::Host: break;
  }
  return static_cast<std::uint64_t>(config().epoch_realtime_ns + time_ns);
}

}  // namespace ph::cupti

extern "C" {

PH_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc read) noexcept {
  PH_CALL(cuptiActivityRegisterTimestampCallback, HostCost::None);
  if (read == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  make_counter_virtual();
  if (follow_counter(read)) {
    clock_kind = Clock::Counter;
    return CUPTI_SUCCESS;
  }
  const std::uint64_t now = static_cast<std::uint64_t>(profiling::now_ns());
  const std::uint64_t first = read();
  if (read() - first > static_cast<std::uint64_t>(kMostApartNs)) {
    return static_cast<CUptiResult>(library::unsupported(
        "cuptiActivityRegisterTimestampCallback", "a clock of the profiler's own that does not show virtual time"));
  }
  own_at_zero = first - now - 1;  // that read was one later
  clock_kind = Clock::Own;
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp) noexcept {
  PH_CALL(cuptiGetTimestamp, HostCost::None);
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = cupti::timestamp(profiling::now_ns());
  return CUPTI_SUCCESS;
}

}  // extern "C"
