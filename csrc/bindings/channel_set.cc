#include "bindings/channel_set.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace ph {

namespace {

[[noreturn]] void fail(const std::string& path) { throw std::system_error(errno, std::generic_category(), path); }

// They are numbered over all hosts.
std::uint32_t rows_for(const std::vector<std::uint32_t>& ranks) {
  return ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end()) + 1;
}

// While the processors are busy with ranks that do not wait for it, an answer can wait: others will go with it. It need
// not wait longer than a few of them take to ask, too (assumed).
constexpr std::size_t kRanksPerProcessor = 2;
constexpr int kMostLingers = 20;
constexpr timespec kLinger{0, 1'000'000};

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

Mapping::Mapping(const std::string& path, std::size_t size_bytes, Open open) : size_bytes_(size_bytes) {
  const int flags = O_RDWR | O_CLOEXEC | (open == Open::Existing ? 0 : O_CREAT | O_EXCL);
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd < 0) fail(path);
  // A new file is a hole: pages exist once touched.
  bool sized = open == Open::Existing || ::ftruncate(fd, static_cast<off_t>(size_bytes)) == 0;
  if (open == Open::Reserve && sized) {
    errno = ::posix_fallocate(fd, 0, static_cast<off_t>(size_bytes));
    sized = errno == 0;
  }
  data_ = sized ? ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (data_ == MAP_FAILED) fail(path);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(other.size_bytes_) {}

Mapping::~Mapping() {
  if (data_) ::munmap(data_, size_bytes_);
}

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
      board_(switchboard_path(run_dir), switchboard_bytes(rows_for(ranks)), Mapping::Open::Reserve) {
  board().ranks = rows_for(ranks);
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
    if (channel.head.load() - channel.tail.load() > kRingCells / 2) return false;
    const bool is_up = channel.owner_pid.load() != 0 && !entry.gone;
    at_work += is_up && channel.waiting.load() == 0 && channel.aside.load() == 0;
  }
  return at_work > kRanksPerProcessor * processors_;
}

std::vector<ChannelSet::Poll> ChannelSet::collect() {
  rings_seen_ = board().rings.load(std::memory_order_acquire);
  std::vector<Poll> polls;
  for (Entry& entry : entries_) {
    Channel& channel = entry.channel();
    // The clock first: no record that we do not see below is earlier than it.
    const std::uint64_t clock_ns = channel.host_clock_ns.load(std::memory_order_acquire);
    const std::uint64_t head = channel.head.load(std::memory_order_acquire);
    const std::uint64_t tail = channel.tail.load(std::memory_order_relaxed);
    if (head == tail && clock_ns == entry.reported_clock_ns) continue;
    const std::uint64_t count = head - tail;
    if (count > kRingCells)
      throw std::runtime_error("the channel of rank " + std::to_string(entry.rank) + " is corrupt");
    const std::uint64_t start = tail % kRingCells;
    const std::uint64_t before_wrap = std::min(count, kRingCells - start);
    Poll poll{entry.rank, clock_ns, {}};
    poll.cells.reserve(count * kCellBytes);
    poll.cells.append(reinterpret_cast<const char*>(channel.cells) + start * kCellBytes, before_wrap * kCellBytes);
    poll.cells.append(reinterpret_cast<const char*>(channel.cells), (count - before_wrap) * kCellBytes);
    channel.tail.store(head, std::memory_order_release);
    entry.reported_clock_ns = clock_ns;
    polls.push_back(std::move(poll));
  }
  return polls;
}

void ChannelSet::answer(std::uint32_t rank, std::uint32_t slot, ReplyStatus status, std::uint64_t time_ns,
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
  if (reply.recipient != kNobody) board().calls(rank, reply.recipient).begun.fetch_add(1);
  to.answers->fetch_add(1);
  reply.answered.store(1);
  futex_wake(reply.answered);
  // After the answer: whoever did not see it has set the word before.
  std::atomic<std::uint32_t>& awaits_any = to.channel().awaits_any;
  if (awaits_any.exchange(0) != 0) futex_wake(awaits_any);
}

bool ChannelSet::set_aside(std::uint32_t rank) {
  Channel& channel = entry(rank).channel();
  if (!try_lock(channel)) return false;
  const bool quiet = channel.head.load(std::memory_order_acquire) == channel.tail.load(std::memory_order_relaxed);
  // A driver that waits for the server comes back by its answer.
  if (quiet && channel.waiting.load() == 0) channel.aside.store(1, std::memory_order_release);
  unlock(channel);
  return quiet;
}

std::vector<std::pair<std::uint32_t, ChannelSet::CallCount>> ChannelSet::calls() const {
  const auto add = [&](CallCount& count, std::uint32_t from, Recipient to) {
    CallCounters& calls = board().calls(from, to);
    const std::uint32_t ended = calls.ended.load();  // first: one that ends meanwhile was under way
    const std::uint32_t begun = calls.begun.load();
    count.begun += begun;
    count.under_way |= begun != ended;
  };
  CallCount to_everyone;
  for (const Entry& from : entries_) add(to_everyone, from.rank, kEveryone);
  std::vector<std::pair<std::uint32_t, CallCount>> counts;
  for (const Entry& to : entries_) {
    CallCount count = to_everyone;
    count.answers = to.answers->load();
    count.under_way |= to.channel().asking.load() != 0;
    for (const Entry& from : entries_) add(count, from.rank, to.rank + 1);
    counts.emplace_back(to.rank, count);
  }
  return counts;
}

void ChannelSet::hang_up(std::uint32_t rank) {
  entries_[place(rank)].gone = true;
  for (std::uint32_t column = 0; column <= board().ranks; ++column) {
    CallCounters& calls = board().calls(rank, column == board().ranks ? kEveryone : column + 1);
    calls.ended.store(calls.begun.load());
  }
}

void ChannelSet::wake() {
  board().rings.fetch_add(1, std::memory_order_release);
  futex_wake(board().rings);
}

}  // namespace ph
