#include "shim/channel/ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/attachment.h"
#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/channel/slots.h"
#include "shim/core/failure.h"
#include "shim/core/futex.h"
#include "shim/core/visible_devices.h"

namespace ph {

namespace {

std::atomic<Nanoseconds> next_alarm_ns{kNever};

void sleep_until_consumed(std::uint64_t cells) noexcept {
  Channel& channel = *attachment.channel;
  while (channel.head.load(std::memory_order_relaxed) + cells - channel.tail.load(std::memory_order_acquire) >
         kRingCells) {
    ring_doorbell();
    const timespec pause{0, 200'000};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
}

void put_bytes(std::uint64_t cell, const void* bytes, std::size_t size) noexcept {
  std::memcpy(attachment.channel->cells + (cell % kRingCells) * kCellBytes, bytes, size);
}

void put_payload(std::uint64_t cell, std::string_view payload) noexcept {
  for (std::size_t offset = 0; offset < payload.size(); offset += kCellBytes) {
    unsigned char padded[kCellBytes] = {};
    std::memcpy(padded, payload.data() + offset, std::min(kCellBytes, payload.size() - offset));
    put_bytes(cell++, padded, kCellBytes);
  }
}

// What threads of the rank do when their deadline comes, they do before a driver goes on beyond it.
bool alarm_is_due() noexcept {
  return attachment.channel->host_clock_ns.load(std::memory_order_relaxed) >
         next_alarm_ns.load(std::memory_order_relaxed);
}

enum class Written { Records, ResumeWait, Nothing };

// How a driver writes. `claim`: serves for a wait of its own before. `heeds_alarms`: it has not waited for them yet.
struct Writing {
  std::optional<Claim> claim;
  bool heeds_alarms = true;
  Nanoseconds extra_gap_ns = 0;  // what the records are later than the host clock
};

// Writes the records and the payload of the last one. When the server had set this rank aside, or an alarm is due, a
// driver writes a Resume wait on its slot instead, or nothing if it has claimed none. Helper threads write whenever they
// happen to: they bring no rank back.
Written write_cells(std::span<Record> records, std::string_view payload, const Writing& how) noexcept {
  Channel& channel = *attachment.channel;
  const std::uint64_t cells = records.size() + payload_cells(payload.size());
  if (cells > kRingCells) fail_internal("a record of " + std::to_string(cells) + " cells does not fit the ring");
  const SharedLock lock(channel.lock);
  const std::optional<Claim>& claim = how.claim;
  const bool resumes =
      is_driver() && (channel.aside.load(std::memory_order_relaxed) != 0 || (how.heeds_alarms && alarm_is_due()));
  if (resumes && !claim) return Written::Nothing;
  if (claim) channel.slots[claim->slot].recipient = resumes ? kNobody : claim->recipient;

  sleep_until_consumed(cells);
  std::uint64_t cell = channel.head.load(std::memory_order_relaxed);
  const Nanoseconds clock_ns = channel.host_clock_ns.load(std::memory_order_relaxed);
  const Nanoseconds gap_ns = clock_ns - attachment.last_record_clock_ns;

  if (resumes) {
    attachment.last_record_clock_ns = clock_ns;
    channel.aside.store(0, std::memory_order_relaxed);
    Record resume{};
    resume.kind = RecordKind::Wait;
    resume.id = static_cast<std::uint32_t>(WaitKind::Resume);
    resume.host_gap_ns = static_cast<std::uint64_t>(gap_ns);
    resume.arg[ResumeWaitArg::ValuesNs] = static_cast<std::uint64_t>(std::exchange(attachment.values_ns, 0));
    resume.arg[WaitArg::Slot] = claim->slot;
    put_bytes(cell, &resume, sizeof resume);
    channel.head.store(cell + 1, std::memory_order_release);
    return Written::ResumeWait;
  }

  if (records.empty()) return Written::Records;
  attachment.last_record_clock_ns = clock_ns;
  records.front().host_gap_ns = static_cast<std::uint64_t>(gap_ns + how.extra_gap_ns);
  for (Record& record : records) {
    record.device = node_gpu(record.device);
    put_bytes(cell++, &record, sizeof record);
  }
  put_payload(cell, payload);
  const std::uint64_t head = cell + payload_cells(payload.size());
  channel.head.store(head, std::memory_order_release);
  const std::uint64_t behind = head - channel.tail.load(std::memory_order_relaxed);
  if (behind >= kDoorbellCells && head % 1024 < cells) ring_doorbell();
  return Written::Records;
}

}  // namespace

void write_or_resume(std::span<Record> records, std::string_view payload, std::optional<Claim> claim,
                     Nanoseconds extra_gap_ns) noexcept {
  if (!claim) mark_clock_read();
  const bool lent = claim.has_value();
  Writing how{claim, true, extra_gap_ns};
  for (;;) {
    if (how.claim) attachment.channel->slots[how.claim->slot].answered.store(0, std::memory_order_relaxed);
    const Written written = write_cells(records, payload, how);
    if (written == Written::Records) break;
    if (written == Written::Nothing) how.claim = Claim{claim_slot()};
    if (written == Written::ResumeWait) {
      sleep_on(how.claim->slot, true);
      how.heeds_alarms = false;
    }
  }
  if (how.claim && !lent) release_slot(how.claim->slot);
}

void tell_of_wait(WaitKind kind, std::uint32_t slot, std::uint64_t first, std::uint64_t second) noexcept {
  Record record{};
  record.kind = RecordKind::Wait;
  record.flags = kWaitBackground;
  record.id = static_cast<std::uint32_t>(kind);
  record.arg[0] = first;
  record.arg[1] = second;
  record.arg[WaitArg::Slot] = slot;
  const SharedLock lock(attachment.channel->lock);
  sleep_until_consumed(1);
  const std::uint64_t cell = attachment.channel->head.load(std::memory_order_relaxed);
  put_bytes(cell, &record, sizeof record);
  attachment.channel->head.store(cell + 1, std::memory_order_release);
}

bool is_aside() noexcept { return attached() && attachment.channel->aside.load(std::memory_order_relaxed) != 0; }

void note_values(Nanoseconds sent_ns) noexcept {
  if (!is_driver() || !is_aside()) return;
  const SharedLock lock(attachment.channel->lock);
  attachment.values_ns = std::max(attachment.values_ns, sent_ns);
}

bool must_resume() noexcept { return is_driver() && (is_aside() || (attached() && alarm_is_due())); }

void resume_if_aside() noexcept {
  if (must_resume()) write_or_resume({}, {}, std::nullopt);
}

void set_next_alarm(Nanoseconds deadline_ns) noexcept { next_alarm_ns.store(deadline_ns, std::memory_order_relaxed); }

}  // namespace ph
