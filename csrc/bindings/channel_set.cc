#include "bindings/channel_set.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace ph {

namespace {

// They are numbered over all hosts.
std::uint32_t rows_for(const std::vector<std::uint32_t>& ranks) {
  return ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end()) + 1;
}

// While the processors are busy with ranks that do not wait for it, an answer can wait: others will go with it. It need
// not wait longer than a few of them take to ask, too (assumed).
constexpr std::size_t kRanksPerProcessor = 2;
constexpr int kMostLingers = 20;
constexpr timespec kLinger{0, 1'000'000};

// Of one rank, that wait, sleep or call at once (assumed: no program has more).
constexpr std::uint32_t kMostThreads = 1u << 16;

std::size_t count_processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::size_t>(CPU_COUNT(&set)) : 1;
}

std::uint32_t* address(std::atomic<std::uint32_t>& word) { return reinterpret_cast<std::uint32_t*>(&word); }

}  // namespace

std::string channel_path(const std::string& run_dir, std::uint32_t rank) {
  return run_dir + "/rank-" + std::to_string(rank) + ".channel";
}

std::string switchboard_path(const std::string& run_dir) { return run_dir + "/switchboard"; }

// Not the PRIVATE kind: the other side is another process.
void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, address(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, int timeout_ms) {
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  ::syscall(SYS_futex, address(word), FUTEX_WAIT, expected, timeout_ms < 0 ? nullptr : &timeout, nullptr, 0);
}

bool try_lock(Channel& channel) {
  std::uint32_t free = 0;
  return channel.lock.compare_exchange_strong(free, 1, std::memory_order_acquire);
}

void lock(Channel& channel) {
  if (try_lock(channel)) return;
  while (channel.lock.exchange(2, std::memory_order_acquire) != 0) futex_wait(channel.lock, 2, -1);
}

void unlock(Channel& channel) {
  if (channel.lock.exchange(0, std::memory_order_release) == 2) futex_wake(channel.lock);
}

ChannelSet::ChannelSet(const std::string& run_dir, const std::vector<std::uint32_t>& ranks)
    : processors_(count_processors()),
      rows_(rows_for(ranks)),
      board_(switchboard_path(run_dir), switchboard_bytes(rows_), Mapping::Open::Reserve) {
  board().ranks = rows_;
  for (const std::uint32_t rank : ranks) {
    if (!by_rank_.emplace(rank, entries_.size()).second)
      throw std::invalid_argument("rank " + std::to_string(rank) + " is listed twice");
    Mapping mapping(channel_path(run_dir, rank), sizeof(Channel), Mapping::Open::Create);
    entries_.push_back({.rank = rank, .reported_clock_ns = 0, .gone = false, .mapping = std::move(mapping)});
    Channel& channel = entries_.back().channel();  // the kernel's zero pages are the initial state
    channel.version = kProtocolVersion;
    channel.rank = rank;
    channel.magic.store(kChannelMagic, std::memory_order_release);
  }
}

std::size_t ChannelSet::place(std::uint32_t rank) const {
  const auto found = by_rank_.find(rank);
  if (found == by_rank_.end()) throw std::invalid_argument("rank " + std::to_string(rank) + " is not ours");
  return found->second;
}

bool ChannelSet::sleep(int timeout_ms) {
  std::atomic<std::uint32_t>& rings = board().rings;
  if (timeout_ms == 0) return rings.load(std::memory_order_acquire) != rings_seen_;
  if (rings.load(std::memory_order_acquire) == rings_seen_) futex_wait(rings, rings_seen_, timeout_ms);
  if (rings.load(std::memory_order_acquire) == rings_seen_) return false;
  for (int i = 0; i < kMostLingers && keeps_processors_busy(); ++i) ::nanosleep(&kLinger, nullptr);
  return true;
}

bool ChannelSet::keeps_processors_busy() const {
  std::size_t at_work = 0;
  for (const Entry& entry : entries_) {
    const Channel& channel = entry.channel();
    if (channel.head.load() - entry.tail > kRingCells / 2) return false;
    const bool is_up = channel.owner_pid.load() != 0 && !entry.gone;
    at_work += is_up && channel.waiting.load() == 0 && channel.aside.load() == 0;
  }
  return at_work > kRanksPerProcessor * processors_;
}

std::string ChannelSet::fault(const Entry& entry) const {
  const Channel& channel = entry.channel();
  if (channel.magic.load() != kChannelMagic || channel.version != kProtocolVersion || channel.rank != entry.rank)
    return "has overwritten the head of its channel";
  if (channel.tail.load() != entry.tail) return "has overwritten how far its records were read";
  if (channel.lock.load() > 2) return "has overwritten the lock of its channel";
  if (channel.aside.load() > 1) return "has overwritten whether it is set aside";
  for (const auto* count : {&channel.waiting, &channel.polls_asleep, &channel.awaiting_values, &channel.asking,
                            &channel.giving_way, &channel.giving_way_beside, &channel.blocked, &channel.looking_up})
    if (count->load() > kMostThreads) return "has overwritten what its channel says of its threads";
  return {};
}

std::vector<ChannelSet::Poll> ChannelSet::collect() {
  rings_seen_ = board().rings.load(std::memory_order_acquire);
  std::vector<Poll> polls;
  for (Entry& entry : entries_) {
    if (entry.damaged) continue;
    Channel& channel = entry.channel();
    // The clock first: no record that we do not see below is earlier than it.
    const Nanoseconds clock_ns = channel.host_clock_ns.load(std::memory_order_acquire);
    const std::uint64_t head = channel.head.load(std::memory_order_acquire);
    const std::uint64_t tail = entry.tail;
    const std::uint64_t count = head - tail;
    std::string found = fault(entry);
    if (found.empty() && count > kRingCells) found = "has overwritten how many records it has written";
    if (found.empty() && (clock_ns < 0 || clock_ns > kLatest)) found = "has overwritten its host clock";
    if (!found.empty()) {
      entry.damaged = true;
      note(entry.rank, found);
      continue;
    }
    if (count == 0 && clock_ns == entry.reported_clock_ns) continue;
    const std::uint64_t start = tail % kRingCells;
    const std::uint64_t before_wrap = std::min(count, kRingCells - start);
    Poll poll{entry.rank, clock_ns, {}};
    poll.cells.reserve(count * kCellBytes);
    poll.cells.append(reinterpret_cast<const char*>(channel.cells) + start * kCellBytes, before_wrap * kCellBytes);
    poll.cells.append(reinterpret_cast<const char*>(channel.cells), (count - before_wrap) * kCellBytes);
    entry.tail = head;
    channel.tail.store(head, std::memory_order_release);
    entry.reported_clock_ns = clock_ns;
    if (entry.mapping.lost_pages()) continue;  // they are zeros that nobody wrote
    polls.push_back(std::move(poll));
  }
  return polls;
}

void ChannelSet::note(std::optional<std::uint32_t> rank, const std::string& what) {
  const std::lock_guard lock(damage_mutex_);
  if (!damage_) damage_ = {rank, what};
}

std::optional<ChannelSet::Damage> ChannelSet::damage() {
  // First: it explains the others, which zeros look like.
  static constexpr char kLost[] = "has cut short, or the file system that it is in is full";
  for (const Entry& entry : entries_)
    if (entry.mapping.lost_pages()) return Damage{entry.rank, std::string("has a channel that it ") + kLost};
  if (board_.lost_pages()) return Damage{std::nullopt, std::string("shares a switchboard that it ") + kLost};
  if (board().ranks != rows_) note(std::nullopt, "has overwritten the head of the switchboard");
  const std::lock_guard lock(damage_mutex_);
  return damage_;
}

void ChannelSet::answer(std::uint32_t rank, std::uint32_t slot, ReplyStatus status, Nanoseconds time_ns,
                        std::uint64_t value, std::string_view payload) {
  if (slot >= kReplySlots) throw std::invalid_argument("there is no reply slot " + std::to_string(slot));
  if (payload.size() > kReplyPayloadBytes)
    throw std::invalid_argument("a payload of " + std::to_string(payload.size()) + " bytes does not fit a reply");
  const Entry& to = entry(rank);
  ReplySlot& reply = to.channel().slots[slot];
  reply.status = status;
  reply.payload_bytes = static_cast<std::uint32_t>(payload.size());
  reply.time_ns = time_ns;
  reply.value = value;
  if (!payload.empty()) std::memcpy(reply.payload, payload.data(), payload.size());
  const Recipient recipient = reply.recipient;
  if (recipient != kNobody && recipient != kEveryone && recipient > rows_) {
    note(rank,
         "has overwritten a reply slot: the call that waits in it concerns rank " + std::to_string(recipient - 1));
    return wake();
  }
  if (recipient != kNobody) calls(rank, recipient).begun.fetch_add(1);
  to.answers->fetch_add(1);
  reply.answered.store(1);
  futex_wake(reply.answered);
  // After the answer: whoever did not see it has set the word before.
  std::atomic<std::uint32_t>& awaits_any = to.channel().awaits_any;
  if (awaits_any.exchange(0) != 0) futex_wake(awaits_any);
}

bool ChannelSet::set_aside(std::uint32_t rank) {
  const Entry& of = entry(rank);
  Channel& channel = of.channel();
  if (of.damaged || !try_lock(channel)) return false;
  const bool quiet = channel.head.load(std::memory_order_acquire) == of.tail;
  // A driver that waits for the server comes back by its answer.
  if (quiet && channel.waiting.load() == 0) channel.aside.store(1, std::memory_order_release);
  unlock(channel);
  return quiet;
}

void ChannelSet::tell_children(std::uint32_t rank, std::uint32_t question, bool sleep) {
  std::atomic<std::uint32_t>& told = entry(rank).channel().told;
  told.store(2 * question + (sleep ? 1 : 0));
  futex_wake(told);
}

std::vector<std::pair<std::uint32_t, ChannelSet::CallCount>> ChannelSet::calls() {
  const auto add = [&](CallCount& count, std::uint32_t from, const CallCounters& counters) {
    const std::uint32_t ended = counters.ended.load();  // first: one that ends meanwhile was under way
    const std::uint32_t begun = counters.begun.load();
    if (begun - ended > kMostThreads) note(from, "has overwritten how many calls to other ranks it has begun");
    count.begun += begun;
    count.under_way |= begun != ended;
  };
  CallCount to_everyone;
  for (const Entry& from : entries_) add(to_everyone, from.rank, board().row(from.rank).to_everyone);
  std::vector<std::pair<std::uint32_t, CallCount>> counts;
  for (const Entry& to : entries_) {
    CallCount count = to_everyone;
    count.answers = to.answers->load();
    count.under_way |= to.channel().asking.load() != 0;
    counts.emplace_back(to.rank, count);
  }
  for (const Entry& from : entries_) {
    for (const CallCell& cell : board().row(from.rank).cells) {
      const Recipient to = cell.to.load();
      if (to == kNobody) continue;
      const auto place = by_rank_.find(to - 1);
      if (place != by_rank_.end()) add(counts[place->second].second, from.rank, cell.counters);
    }
  }
  return counts;
}

void ChannelSet::hang_up(std::uint32_t rank) {
  entries_[place(rank)].gone = true;
  const auto end = [](CallCounters& counters) { counters.ended.store(counters.begun.load()); };
  CallRow& row = board().row(rank);
  end(row.to_everyone);
  for (CallCell& cell : row.cells) end(cell.counters);
}

bool ChannelSet::release(std::uint32_t rank, std::uint32_t pid) {
  Channel& own = entries_[place(rank)].channel();
  if (own.owner_pid.load() != pid) return true;
  if (own.left.load() != pid) return false;
  own.owner_pid.compare_exchange_strong(pid, 0);
  return true;
}

void ChannelSet::wake() {
  board().rings.fetch_add(1, std::memory_order_release);
  futex_wake(board().rings);
}

}  // namespace ph
