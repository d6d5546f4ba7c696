// A rank's processes, one after the other, in a program that starts its own (docs/decisions/launchers.md): the jobs of a
// script, the workers of several tests. To the server they are one rank: the same host clock, numbers that go on.
#include "shim/channel/succession.h"

#include <array>
#include <atomic>
#include <string>

#include <unistd.h>

#include "shim/channel/attachment.h"
#include "shim/channel/rank.h"
#include "shim/channel/ring.h"
#include "shim/channel/slots.h"
#include "shim/core/failure.h"
#include "shim/core/futex.h"
#include "shim/core/run_environment.h"

namespace ph {

namespace {

std::array<std::atomic<std::uint64_t>, kNumberings> given{};

// One that the server does not wait to answer.
std::uint32_t free_slot(Channel& channel) noexcept {
  for (std::uint32_t index = 0; index < kReplySlots; ++index) {
    ReplySlot& slot = channel.slots[index];
    if (slot.busy.load() != 0 && slot.answered.load() == 0) continue;
    slot.busy.store(1);
    return index;
  }
  fail_internal("the process before this one has left no reply slot of rank " + std::to_string(attachment.rank));
}

// What threads of the process before were doing, they do no more.
void forget_threads(Channel& channel) noexcept {
  for (auto* count :
       {&channel.waiting, &channel.polls_asleep, &channel.awaiting_values, &channel.asking, &channel.awaits_any,
        &channel.giving_way, &channel.giving_way_beside, &channel.blocked, &channel.looking_up}) {
    count->store(0);
  }
}

}  // namespace

std::uint64_t next_number(Numbering of) noexcept { return given[static_cast<std::size_t>(of)].fetch_add(1) + 1; }

bool may_be_followed() noexcept { return is_owner() && run_variable(RunVariable::OwnRanks) != nullptr; }

void leave_to_another() noexcept {
  Channel& channel = *attachment.channel;
  leave();
  {
    const SharedLock lock(channel.lock);
    channel.last_record_clock_ns = attachment.last_record_clock_ns;
    for (std::size_t of = 0; of < kNumberings; ++of) channel.numbers[of] = given[of].load();
    channel.left.store(static_cast<std::uint32_t>(getpid()));
  }
  ring_doorbell();
}

bool follows(const Channel& channel) noexcept { return channel.left.load() != 0; }

void succeed() noexcept {
  Channel& channel = *attachment.channel;
  for (std::size_t of = 0; of < kNumberings; ++of) given[of].store(channel.numbers[of]);
  attachment.last_record_clock_ns = channel.last_record_clock_ns;
  channel.left.store(0);
  forget_threads(channel);
  const std::uint32_t slot = free_slot(channel);
  channel.aside.store(0);
  Record record{};
  record.kind = RecordKind::Wait;
  record.flags = kWaitSucceeds;
  record.id = static_cast<std::uint32_t>(WaitKind::Resume);
  record.arg[WaitArg::Slot] = slot;
  write_or_resume({&record, 1}, {}, Claim{slot});
  sleep_on(slot, true);
  // All answers to the process before have come by now.
  for (ReplySlot& one : channel.slots) one.busy.store(0);
}

}  // namespace ph
