#include "shim/channel/slots.h"

#include <algorithm>
#include <atomic>

#include "shim/channel/attachment.h"
#include "shim/channel/hooks.h"
#include "shim/core/futex.h"

namespace ph {

namespace {
std::atomic<std::uint32_t> slots_released{0};  // futex word
std::atomic<std::uint32_t> slot_seekers{0};
}  // namespace

std::uint32_t claim_slot() noexcept {
  for (;;) {
    const std::uint32_t released = slots_released.load(std::memory_order_acquire);
    for (std::uint32_t slot = 0; slot < kReplySlots; ++slot) {
      std::uint32_t free = 0;
      if (attachment.channel->slots[slot].busy.compare_exchange_strong(free, 1, std::memory_order_acquire)) return slot;
    }
    slot_seekers.fetch_add(1);
    futex_wait(slots_released, released);
    slot_seekers.fetch_sub(1);
  }
}

const ReplySlot& sleep_on(std::uint32_t index, bool moves_clock) noexcept {
  Channel& channel = *attachment.channel;
  ReplySlot& slot = channel.slots[index];
  if (moves_clock) channel.waiting.fetch_add(1);
  ring_doorbell();
  const bool keeps_gil = moves_clock && slot.answered.load(std::memory_order_acquire) == 0 && keep_gil();
  while (slot.answered.load(std::memory_order_acquire) == 0) futex_wait(slot.answered, 0);
  if (keeps_gil) stop_keeping_gil();
  if (moves_clock) {
    channel.waiting.fetch_sub(1);
    const SharedLock lock(channel.lock);
    // Other drivers advance the clock meanwhile, without the lock.
    Nanoseconds clock_ns = channel.host_clock_ns.load(std::memory_order_relaxed);
    while (clock_ns < slot.time_ns &&
           !channel.host_clock_ns.compare_exchange_weak(clock_ns, slot.time_ns, std::memory_order_relaxed)) {
    }
    attachment.last_record_clock_ns = std::max(attachment.last_record_clock_ns, slot.time_ns);
  }
  return slot;
}

void release_slot(std::uint32_t slot) noexcept {
  attachment.channel->slots[slot].busy.store(0, std::memory_order_release);
  slots_released.fetch_add(1);
  if (slot_seekers.load() != 0) futex_wake(slots_released, 1);
}

}  // namespace ph
