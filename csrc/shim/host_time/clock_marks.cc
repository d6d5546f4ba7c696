#include "shim/host_time/clock_marks.h"

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/core/own_code.h"
#include "shim/python/python_frame.h"

namespace ph {

namespace {

// A line leaves one mark in so much virtual time (assumed: less than whatever is worth timing).
constexpr Nanoseconds kLeastApartNs = 1000;

thread_local std::uint32_t read_at = 0;  // the line that may have read a clock

// By call site, when the thread last marked it. Never destroyed: threads still record while they end.
std::unordered_map<std::uint32_t, Nanoseconds>& marked_ns() {
  static thread_local auto& times = *new std::unordered_map<std::uint32_t, Nanoseconds>;
  return times;
}

}  // namespace

PendingClockRead::PendingClockRead() noexcept : read_at_(std::exchange(read_at, 0)) {}
PendingClockRead::~PendingClockRead() { read_at = read_at_; }

void note_clock_read(bool polls) noexcept {
  if (!polls) mark_clock_read();
  const OwnCode own;
  read_at = users_own_site();
}

void drop_clock_read() noexcept { read_at = 0; }

void mark_clock_read() noexcept {
  const std::uint32_t site = std::exchange(read_at, 0);
  if (site == 0) return;
  const OwnCode own;
  const Nanoseconds now_ns = host_clock_ns();
  const auto [entry, is_new] = marked_ns().try_emplace(site, now_ns);
  if (!is_new && now_ns < entry->second + kLeastApartNs) return;
  entry->second = now_ns;
  Record record{};
  record.kind = RecordKind::Marker;
  record.id = static_cast<std::uint32_t>(MarkerKind::ClockRead);
  record.site = site;
  emit(record);
}

}  // namespace ph
