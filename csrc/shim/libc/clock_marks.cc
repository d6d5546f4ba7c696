#include "shim/libc/clock_marks.h"

#include <cstdint>
#include <unordered_map>

#include "shim/core/own_code.h"
#include "shim/core/python_frame.h"
#include "shim/core/rank.h"

namespace ph {

namespace {

// A loop that polls the clock leaves a mark in so much virtual time (assumed: less than whatever is worth timing).
constexpr std::uint64_t kLeastApartNs = 1000;

// By call site, when the thread last marked it.
thread_local std::unordered_map<std::uint32_t, std::uint64_t> marked_ns;

}  // namespace

void mark_clock_read() noexcept {
  const OwnCode own;
  const std::uint32_t site = users_own_site();
  if (site == 0) return;
  const std::uint64_t now_ns = host_clock_ns();
  const auto [entry, is_new] = marked_ns.try_emplace(site, now_ns);
  if (!is_new && now_ns < entry->second + kLeastApartNs) return;
  entry->second = now_ns;
  Record record{};
  record.kind = RecordKind::Marker;
  record.id = static_cast<std::uint32_t>(MarkerKind::ClockRead);
  record.site = site;
  emit(record);
}

}  // namespace ph
