// The channel's writing end. See rank.h for the rules and protocol/channel.h for the layout.
#include "shim/core/rank.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/core/capture.h"
#include "shim/core/clock_marks.h"
#include "shim/core/config.h"
#include "shim/core/failure.h"
#include "shim/core/futex.h"
#include "shim/core/host_time.h"
#include "shim/core/python_frame.h"

namespace ph {

namespace {

struct Attachment {
  Channel* channel = nullptr;
  Switchboard* board = nullptr;
  std::uint32_t board_rows = 0;  // as they were at the start
  std::uint32_t rank = 0;
  std::uint64_t last_record_clock_ns = 0;  // guarded by the channel's lock
};

Attachment state;
std::atomic<std::uint32_t> slots_released{0};  // futex word
std::atomic<std::uint32_t> slot_seekers{0};
std::atomic<bool> is_attached{false};
std::atomic<bool> is_virtual{false};
std::atomic<std::uint64_t> next_alarm_ns{kNoAlarm};
thread_local bool thread_drives = false;

// The whole file.
void* map_shared(const std::string& path) noexcept {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
  if (end < 0) fail_internal("cannot open " + path + ": " + std::strerror(errno));
  const auto bytes = static_cast<std::size_t>(end);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) fail_internal("cannot map " + path + ": " + std::strerror(errno));
  return mapped;
}

Channel* map_channel(const std::string& directory, std::uint32_t rank) noexcept {
  auto* channel = static_cast<Channel*>(map_shared(directory + "/rank-" + std::to_string(rank) + ".channel"));
  if (channel->magic.load(std::memory_order_acquire) != kChannelMagic || channel->version != kProtocolVersion) {
    fail_internal("the channel of rank " + std::to_string(rank) + " has another protocol version than this shim");
  }
  return channel;
}

bool is_alive(std::uint32_t pid) noexcept { return kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM; }

// A forked child shares the mapping but must not write to it: it only reads the clock.
void detach_in_child() noexcept {
  is_attached.store(false, std::memory_order_relaxed);
  thread_drives = false;
}

void ring_doorbell() noexcept {
  state.board->rings.fetch_add(1, std::memory_order_release);
  futex_wake(state.board->rings, 1);
}

void sleep_until_consumed(std::uint64_t cells) noexcept {
  Channel& channel = *state.channel;
  while (channel.head.load(std::memory_order_relaxed) + cells - channel.tail.load(std::memory_order_acquire) >
         kRingCells) {
    ring_doorbell();
    const timespec pause{0, 200'000};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
}

void put_bytes(std::uint64_t cell, const void* bytes, std::size_t size) noexcept {
  std::memcpy(state.channel->cells + (cell % kRingCells) * kCellBytes, bytes, size);
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
  return state.channel->host_clock_ns.load(std::memory_order_relaxed) > next_alarm_ns.load(std::memory_order_relaxed);
}

enum class Written { Records, ResumeWait, Nothing };

// A reply slot that a thread has claimed, and the call that begins when what it writes is answered there.
struct Claim {
  std::uint32_t slot;
  Recipient recipient = kNobody;
};

// How a driver writes. `claim`: serves for a wait of its own before. `heeds_alarms`: it has not waited for them yet.
struct Writing {
  std::optional<Claim> claim;
  bool heeds_alarms = true;
  std::uint64_t extra_gap_ns = 0;  // what the records are later than the host clock
};

// Writes the records and the payload of the last one. When the server had set this rank aside, or an alarm is due, a
// driver writes a Resume wait on its slot instead, or nothing if it has claimed none. Helper threads write whenever they
// happen to: they bring no rank back.
Written write_cells(std::span<Record> records, std::string_view payload, const Writing& how) noexcept {
  Channel& channel = *state.channel;
  const std::uint64_t cells = records.size() + payload_cells(payload.size());
  if (cells > kRingCells) fail_internal("a record of " + std::to_string(cells) + " cells does not fit the ring");
  const SharedLock lock(channel.lock);
  const std::optional<Claim>& claim = how.claim;
  const bool resumes =
      thread_drives && (channel.aside.load(std::memory_order_relaxed) != 0 || (how.heeds_alarms && alarm_is_due()));
  if (resumes && !claim) return Written::Nothing;
  if (claim) channel.slots[claim->slot].recipient = resumes ? kNobody : claim->recipient;

  sleep_until_consumed(cells);
  std::uint64_t cell = channel.head.load(std::memory_order_relaxed);
  const std::uint64_t clock_ns = channel.host_clock_ns.load(std::memory_order_relaxed);
  const std::uint64_t gap_ns = clock_ns - state.last_record_clock_ns;

  if (resumes) {
    state.last_record_clock_ns = clock_ns;
    channel.aside.store(0, std::memory_order_relaxed);
    Record resume{};
    resume.kind = RecordKind::Wait;
    resume.id = static_cast<std::uint32_t>(WaitKind::Resume);
    resume.host_gap_ns = gap_ns;
    resume.arg[WaitArg::Slot] = claim->slot;
    put_bytes(cell, &resume, sizeof resume);
    channel.head.store(cell + 1, std::memory_order_release);
    return Written::ResumeWait;
  }

  if (records.empty()) return Written::Records;
  state.last_record_clock_ns = clock_ns;
  records.front().host_gap_ns = gap_ns + how.extra_gap_ns;
  for (const Record& record : records) put_bytes(cell++, &record, sizeof record);
  put_payload(cell, payload);
  const std::uint64_t head = cell + payload_cells(payload.size());
  channel.head.store(head, std::memory_order_release);
  const std::uint64_t behind = head - channel.tail.load(std::memory_order_relaxed);
  if (behind >= kDoorbellCells && head % 1024 < cells) ring_doorbell();
  return Written::Records;
}

// Sleeps while more threads wait than there are slots.
std::uint32_t claim_slot() noexcept {
  for (;;) {
    const std::uint32_t released = slots_released.load(std::memory_order_acquire);
    for (std::uint32_t slot = 0; slot < kReplySlots; ++slot) {
      std::uint32_t free = 0;
      if (state.channel->slots[slot].busy.compare_exchange_strong(free, 1, std::memory_order_acquire)) return slot;
    }
    slot_seekers.fetch_add(1);
    futex_wait(slots_released, released);
    slot_seekers.fetch_sub(1);
  }
}

// Sleeps until the slot is answered. `moves_clock`: the rank itself waited, so its host clock moves to the answer.
const ReplySlot& sleep_on(std::uint32_t index, bool moves_clock) noexcept {
  Channel& channel = *state.channel;
  ReplySlot& slot = channel.slots[index];
  if (moves_clock) channel.waiting.fetch_add(1);
  ring_doorbell();
  while (slot.answered.load(std::memory_order_acquire) == 0) futex_wait(slot.answered, 0);
  if (moves_clock) {
    channel.waiting.fetch_sub(1);
    const SharedLock lock(channel.lock);
    // Other drivers advance the clock meanwhile, without the lock.
    std::uint64_t clock_ns = channel.host_clock_ns.load(std::memory_order_relaxed);
    while (clock_ns < slot.time_ns &&
           !channel.host_clock_ns.compare_exchange_weak(clock_ns, slot.time_ns, std::memory_order_relaxed)) {
    }
    state.last_record_clock_ns = std::max(state.last_record_clock_ns, slot.time_ns);
  }
  return slot;
}

void release_slot(std::uint32_t slot) noexcept {
  state.channel->slots[slot].busy.store(0, std::memory_order_release);
  slots_released.fetch_add(1);
  if (slot_seekers.load() != 0) futex_wake(slots_released, 1);
}

// `claim`: the caller's for these records; its slot serves for a Resume wait before. Whoever held one slot and claimed a
// second might wait for ever for threads that do the same.
void write_or_resume(std::span<Record> records, std::string_view payload, std::optional<Claim> claim,
                     std::uint64_t extra_gap_ns = 0) noexcept {
  if (!claim) mark_clock_read();
  const bool lent = claim.has_value();
  Writing how{claim, true, extra_gap_ns};
  for (;;) {
    if (how.claim) state.channel->slots[how.claim->slot].answered.store(0, std::memory_order_relaxed);
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

// Comes back if this rank was set aside; no more.
void resume() noexcept { write_or_resume({}, {}, std::nullopt); }

std::uint32_t emit_wait(Record& record, Recipient recipient = kNobody, std::uint64_t extra_gap_ns = 0) noexcept {
  mark_clock_read();
  record.kind = RecordKind::Wait;
  if (thread_drives) record.site = current_site();
  else record.flags |= kWaitBackground;
  const std::uint32_t slot = claim_slot();
  record.arg[WaitArg::Slot] = slot;
  write_or_resume({&record, 1}, {}, Claim{slot, recipient}, extra_gap_ns);
  return slot;
}

// While it lives this thread, if it is a helper, is about to be told something: its rank is not still.
class Question {
 public:
  explicit Question(bool asks) noexcept : asks_(asks && !thread_drives) {
    if (asks_) state.channel->asking.fetch_add(1);
  }
  ~Question() noexcept {
    if (asks_) state.channel->asking.fetch_sub(1);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

 private:
  const bool asks_;
};

bool is_question(const Record& record) noexcept {
  const auto kind = static_cast<WaitKind>(record.id);
  return kind == WaitKind::QueryStream || kind == WaitKind::QueryEvent || kind == WaitKind::Elapsed;
}

void await_reply(std::uint32_t index, Reply& reply) noexcept {
  const ReplySlot& slot = sleep_on(index, thread_drives);
  reply.status = slot.status;
  reply.time_ns = slot.time_ns;
  reply.value = slot.value;
  reply.payload_bytes = slot.payload_bytes;
  std::memcpy(reply.payload, slot.payload, slot.payload_bytes);
  release_slot(index);
}

// Takes no host time and brings no rank back: when a thread begins or ends to wait differs from run to run.
void tell_of_wait(WaitKind kind, std::uint32_t slot, std::uint64_t first = 0, std::uint64_t second = 0) noexcept {
  Record record{};
  record.kind = RecordKind::Wait;
  record.flags = kWaitBackground;
  record.id = static_cast<std::uint32_t>(kind);
  record.arg[0] = first;
  record.arg[1] = second;
  record.arg[WaitArg::Slot] = slot;
  const SharedLock lock(state.channel->lock);
  sleep_until_consumed(1);
  const std::uint64_t cell = state.channel->head.load(std::memory_order_relaxed);
  put_bytes(cell, &record, sizeof record);
  state.channel->head.store(cell + 1, std::memory_order_release);
}

// From now on this process sees the rank's clock and the switchboard.
void see_as(Channel* channel, const std::string& directory, std::uint32_t rank) noexcept {
  state.channel = channel;
  state.board = static_cast<Switchboard*>(map_shared(directory + "/switchboard"));
  state.board_rows = state.board->ranks;
  state.rank = rank;
  is_virtual.store(true);
}

}  // namespace

bool follow(const char* run_dir, std::uint32_t rank) noexcept {
  read_rank_settings(run_dir, rank);
  Channel* channel = map_channel(run_dir, rank);
  if (channel->owner_pid.load() == 0) return false;
  see_as(channel, run_dir, rank);
  return true;
}

bool attach(const char* run_dir, std::uint32_t rank) noexcept {
  // Read before the clock is virtual: reading allocates, and an allocator may ask for the time.
  config();
  const std::string directory(run_dir);
  read_rank_settings(directory, rank);
  Channel* channel = map_channel(directory, rank);
  const auto self = static_cast<std::uint32_t>(getpid());
  std::uint32_t owner = 0;
  if (!channel->owner_pid.compare_exchange_strong(owner, self) && owner != self) {
    if (!is_alive(owner)) {
      fail_usage("rank " + std::to_string(rank) +
                 " starts a second program that may use its GPU, after the first has " +
                 "ended; one program per rank is supported, so give each a `phantora run` of its own");
    }
    see_as(channel, directory, rank);  // a child process of the rank: it drives nothing
    return false;
  }
  see_as(channel, directory, rank);
  pthread_atfork(nullptr, nullptr, detach_in_child);
  thread_drives = true;
  is_attached.store(true);
  return true;
}

bool attached() noexcept { return is_attached.load(std::memory_order_relaxed); }
void leave() noexcept { is_attached.store(false, std::memory_order_relaxed); }
bool clock_virtual() noexcept { return is_virtual.load(std::memory_order_relaxed); }
std::uint32_t global_rank() noexcept { return state.rank; }
void become_driver() noexcept { thread_drives = attached(); }
bool is_driver() noexcept { return thread_drives; }

std::uint64_t host_clock_ns() noexcept {
  return clock_virtual() ? state.channel->host_clock_ns.load(std::memory_order_relaxed) : 0;
}

void advance_host_clock(std::uint64_t duration_ns) noexcept {
  if (!attached() || !thread_drives) return;
  mark_clock_read();
  resume_if_aside();
  state.channel->host_clock_ns.fetch_add(duration_ns, std::memory_order_relaxed);
}

bool waits_for_server() noexcept {
  return clock_virtual() && state.channel->waiting.load(std::memory_order_relaxed) != 0;
}

bool is_owner() noexcept {
  return attached() && state.channel->owner_pid.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(getpid());
}

bool is_aside() noexcept { return attached() && state.channel->aside.load(std::memory_order_relaxed) != 0; }

bool must_resume() noexcept { return thread_drives && (is_aside() || (attached() && alarm_is_due())); }

void resume_if_aside() noexcept {
  if (must_resume()) resume();
}

void wait_for_simulation(std::uint64_t duration_ns) noexcept {
  if (!attached()) return;
  Record record{};
  record.id = static_cast<std::uint32_t>(WaitKind::Resume);
  const std::uint32_t slot = emit_wait(record, kNobody, duration_ns);
  sleep_on(slot, true);
  release_slot(slot);
}

std::uint32_t claim_alarm_slot() noexcept {
  const std::uint32_t slot = claim_slot();
  state.channel->slots[slot].answered.store(0, std::memory_order_relaxed);
  state.channel->slots[slot].recipient = kNobody;
  return slot;
}

void tell_alarm(std::uint32_t slot, std::uint64_t deadline_ns, bool withdrawn) noexcept {
  tell_of_wait(WaitKind::Alarm, slot, deadline_ns, withdrawn ? 1 : 0);
  if (!withdrawn) ring_doorbell();
}

void set_next_alarm(std::uint64_t deadline_ns) noexcept { next_alarm_ns.store(deadline_ns, std::memory_order_relaxed); }

std::uint64_t await_alarms(std::uint32_t index, const timespec* timeout) noexcept {
  ReplySlot& slot = state.channel->slots[index];
  futex_wait(slot.answered, 0, timeout);
  return slot.answered.exchange(0, std::memory_order_acq_rel) != 0 ? slot.time_ns : 0;
}

void tell_host_clock() noexcept { ring_doorbell(); }
Switchboard& switchboard() noexcept { return *state.board; }
void begin_call(Recipient to) noexcept { state.board->calls(state.board_rows, state.rank, to).begun.fetch_add(1); }
void end_call(Recipient to) noexcept { state.board->calls(state.board_rows, state.rank, to).ended.fetch_add(1); }
void begin_value_wait() noexcept {
  if (attached()) state.channel->awaiting_values.fetch_add(1);
}
void end_value_wait() noexcept {
  if (attached()) state.channel->awaiting_values.fetch_sub(1);
}
void end_nap() noexcept { state.channel->napping.fetch_sub(1); }
void begin_nap() noexcept {
  state.channel->naps.fetch_add(1);
  state.channel->napping.fetch_add(1);
}

void emit(Record record, bool locate) noexcept {
  if (!attached()) return;
  if (locate) record.site = current_site();
  if (capture_record(record)) return;
  write_or_resume({&record, 1}, {}, std::nullopt);
}

void emit(Record record, std::string_view payload) noexcept {
  if (!attached()) return;
  record.arg[PayloadArg::Bytes] = payload.size();
  write_or_resume({&record, 1}, payload, std::nullopt);
}

void emit(std::span<Record> records, bool locate) noexcept {
  if (!attached()) return;
  if (locate) records.front().site = current_site();
  write_or_resume(records, {}, std::nullopt);
}

ReplyStatus wait(Record record, std::uint64_t* value) noexcept {
  if (!attached()) return ReplyStatus::Done;
  const Question question(is_question(record));
  const std::uint32_t index = emit_wait(record);
  const ReplySlot& slot = sleep_on(index, thread_drives);
  if (value != nullptr) *value = slot.value;
  const ReplyStatus status = slot.status;
  release_slot(index);
  return status;
}

void begin_call_in_turn(Recipient to) noexcept {
  Record record{};
  record.id = static_cast<std::uint32_t>(WaitKind::Outside);
  const std::uint32_t index = emit_wait(record, to);
  sleep_on(index, thread_drives);
  release_slot(index);
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
  Channel& channel = *state.channel;
  channel.awaits_any.store(1);  // before the look; the agent, who clears it, answers first
  const bool any = std::any_of(slots.begin(), slots.end(),
                               [&](std::uint32_t index) { return channel.slots[index].answered.load() != 0; });
  if (!any) futex_wait(channel.awaits_any, 1, &limit);
}

bool take_reply(std::uint32_t index, Reply& reply) noexcept {
  if (state.channel->slots[index].answered.load(std::memory_order_acquire) == 0) return false;
  await_reply(index, reply);
  return true;
}

void withdraw_wait(std::uint32_t index) noexcept {
  const Question question(true);
  tell_of_wait(WaitKind::Withdraw, index);
  sleep_on(index, false);
  release_slot(index);
}

std::uint32_t intern_signature(std::string_view json) noexcept {
  static std::mutex mutex;
  static auto& ids = *new std::unordered_map<std::string, std::uint32_t>;  // threads still record at the end
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = ids.try_emplace(std::string(json), static_cast<std::uint32_t>(ids.size() + 1));
  if (is_new) {
    Record record{};
    record.kind = RecordKind::Signature;
    record.id = entry->second;
    emit(record, json);
    name_signature(entry->second, json);
  }
  return entry->second;
}

}  // namespace ph
