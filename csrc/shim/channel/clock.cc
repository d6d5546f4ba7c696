// The rank's host clock.
#include "shim/channel/attachment.h"
#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/channel/slots.h"
#include "shim/channel/waits.h"

namespace ph {

Nanoseconds host_clock_ns() noexcept {
  return clock_virtual() ? attachment.channel->host_clock_ns.load(std::memory_order_relaxed) : 0;
}

void advance_host_clock(Nanoseconds duration_ns) noexcept {
  if (!attached() || !is_driver()) return;
  mark_clock_read();
  resume_if_aside();
  attachment.channel->host_clock_ns.fetch_add(duration_ns, std::memory_order_relaxed);
}

bool waits_for_server() noexcept {
  return clock_virtual() && attachment.channel->waiting.load(std::memory_order_relaxed) != 0;
}

void wait_for_simulation(Nanoseconds duration_ns) noexcept {
  if (!attached()) return;
  Record record{};
  record.id = static_cast<std::uint32_t>(WaitKind::Resume);
  const std::uint32_t slot = emit_wait(record, kNobody, duration_ns);
  sleep_on(slot, true);
  release_slot(slot);
}

void tell_host_clock() noexcept { ring_doorbell(); }

}  // namespace ph
