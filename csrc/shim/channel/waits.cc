// Waits for the server's answers, and the questions of helper threads.
#include "shim/channel/waits.h"

#include <algorithm>
#include <cstring>

#include "shim/channel/attachment.h"
#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/channel/ring.h"
#include "shim/channel/slots.h"
#include "shim/core/futex.h"

namespace ph {

namespace {

// While it lives this thread, if it is a helper, is about to be told something: its rank is not still.
class Question {
 public:
  explicit Question(bool asks) noexcept : asks_(asks && !is_driver()) {
    if (asks_) attachment.channel->asking.fetch_add(1);
  }
  ~Question() noexcept {
    if (asks_) attachment.channel->asking.fetch_sub(1);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

 private:
  const bool asks_;
};

bool is_question(const Record& record) noexcept {
  const auto kind = static_cast<WaitKind>(record.id);
  return kind == WaitKind::QueryStream || kind == WaitKind::QueryEvent || kind == WaitKind::Elapsed ||
         kind == WaitKind::Activities;
}

void await_reply(std::uint32_t index, Reply& reply) noexcept {
  const ReplySlot& slot = sleep_on(index, is_driver());
  reply.status = slot.status;
  reply.time_ns = slot.time_ns;
  reply.value = slot.value;
  reply.payload_bytes = slot.payload_bytes;
  std::memcpy(reply.payload, slot.payload, slot.payload_bytes);
  release_slot(index);
}

}  // namespace

bool helpers_ask() noexcept { return attached() && attachment.channel->asking.load() != 0; }

std::uint32_t emit_wait(Record& record, Recipient recipient, Nanoseconds extra_gap_ns) noexcept {
  mark_clock_read();
  record.kind = RecordKind::Wait;
  if (is_driver()) record.site = current_site();
  else record.flags |= kWaitBackground;
  const std::uint32_t slot = claim_slot();
  record.arg[WaitArg::Slot] = slot;
  write_or_resume({&record, 1}, {}, Claim{slot, recipient}, extra_gap_ns);
  return slot;
}

ReplyStatus wait(Record record, std::uint64_t* value) noexcept {
  if (!attached()) return ReplyStatus::Done;
  const Question question(is_question(record));
  const std::uint32_t index = emit_wait(record);
  const ReplySlot& slot = sleep_on(index, is_driver());
  if (value != nullptr) *value = slot.value;
  const ReplyStatus status = slot.status;
  release_slot(index);
  return status;
}

void wait(Record record, Reply& reply) noexcept {
  reply.status = ReplyStatus::Done;
  reply.payload_bytes = 0;
  if (!attached()) return;
  const Question question(is_question(record));
  await_reply(emit_wait(record), reply);
}

std::uint32_t begin_wait(Record record) noexcept {
  const std::uint32_t index = emit_wait(record);
  ring_doorbell();
  return index;
}

void await_any_reply(std::span<const std::uint32_t> slots, const timespec& limit) noexcept {
  Channel& channel = *attachment.channel;
  channel.awaits_any.store(1);  // before the look; the agent, who clears it, answers first
  const bool any = std::any_of(slots.begin(), slots.end(),
                               [&](std::uint32_t index) { return channel.slots[index].answered.load() != 0; });
  if (!any) futex_wait(channel.awaits_any, 1, &limit);
}

bool take_reply(std::uint32_t index, Reply& reply) noexcept {
  if (attachment.channel->slots[index].answered.load(std::memory_order_acquire) == 0) return false;
  await_reply(index, reply);
  return true;
}

void withdraw_wait(std::uint32_t index) noexcept {
  const Question question(true);
  tell_of_wait(WaitKind::Withdraw, index);
  sleep_on(index, false);
  release_slot(index);
}

}  // namespace ph
