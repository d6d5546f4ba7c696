// What ranks do to each other by other means than the GPU, and the alarms of their threads.
#include "shim/channel/attachment.h"
#include "shim/channel/rank.h"
#include "shim/channel/ring.h"
#include "shim/channel/slots.h"
#include "shim/channel/waits.h"
#include "shim/core/futex.h"

namespace ph {

Switchboard& switchboard() noexcept { return *attachment.board; }
void begin_call(Recipient to) noexcept {
  attachment.board->calls(attachment.board_rows, attachment.rank, to).begun.fetch_add(1);
}
void end_call(Recipient to) noexcept {
  attachment.board->calls(attachment.board_rows, attachment.rank, to).ended.fetch_add(1);
}
void begin_value_wait() noexcept {
  if (attached()) attachment.channel->awaiting_values.fetch_add(1);
}
void end_value_wait() noexcept {
  if (attached()) attachment.channel->awaiting_values.fetch_sub(1);
}
void begin_blocking() noexcept { attachment.channel->blocked.fetch_add(1); }
void end_blocking() noexcept { attachment.channel->blocked.fetch_sub(1); }
void begin_lookup() noexcept { attachment.channel->looking_up.fetch_add(1); }
void end_lookup() noexcept { attachment.channel->looking_up.fetch_sub(1); }
void end_poll_sleep() noexcept { attachment.channel->polls_asleep.fetch_sub(1); }
void begin_poll_sleep() noexcept {
  attachment.channel->poll_sleeps.fetch_add(1);
  attachment.channel->polls_asleep.fetch_add(1);
}

void begin_giving_way(bool beside) noexcept {
  if (beside) attachment.channel->giving_way_beside.fetch_add(1);
  attachment.channel->giving_way.fetch_add(1);
}
void end_giving_way(bool beside) noexcept {
  attachment.channel->giving_way.fetch_sub(1);
  if (beside) attachment.channel->giving_way_beside.fetch_sub(1);
}

void note_ran_out() noexcept { attachment.channel->ran_out.fetch_add(1); }

Children await_children(Nanoseconds limit_ns) noexcept {
  Channel& channel = *attachment.channel;
  const std::uint32_t question = channel.asked.fetch_add(1) + 1;
  ring_doorbell();
  const timespec limit{limit_ns / 1'000'000'000, limit_ns % 1'000'000'000};
  const std::uint32_t seen = channel.told.load();
  const auto is_answered = [&](std::uint32_t told) { return static_cast<std::int32_t>(told - 2 * question) >= 0; };
  if (!is_answered(seen)) futex_wait(channel.told, seen, &limit);
  const std::uint32_t told = channel.told.load();
  if (!is_answered(told)) return Children::Work;
  return told % 2 != 0 ? Children::Sleep : Children::Still;
}

void begin_call_in_turn(Recipient to) noexcept {
  Record record{};
  record.id = static_cast<std::uint32_t>(WaitKind::Outside);
  const std::uint32_t index = emit_wait(record, to);
  sleep_on(index, is_driver());
  release_slot(index);
}

std::uint32_t claim_alarm_slot() noexcept {
  const std::uint32_t slot = claim_slot();
  attachment.channel->slots[slot].answered.store(0, std::memory_order_relaxed);
  attachment.channel->slots[slot].recipient = kNobody;
  return slot;
}

void tell_alarm(std::uint32_t slot, Nanoseconds deadline_ns, bool withdrawn) noexcept {
  tell_of_wait(WaitKind::Alarm, slot, static_cast<std::uint64_t>(deadline_ns), withdrawn ? 1 : 0);
  if (!withdrawn) ring_doorbell();
}

std::optional<Nanoseconds> await_alarms(std::uint32_t index, const timespec* timeout) noexcept {
  ReplySlot& slot = attachment.channel->slots[index];
  futex_wait(slot.answered, 0, timeout);
  if (slot.answered.exchange(0, std::memory_order_acq_rel) == 0) return std::nullopt;
  return slot.time_ns;
}

}  // namespace ph
