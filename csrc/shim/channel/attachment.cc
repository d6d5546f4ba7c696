// A process becomes its rank, or sees what the rank sees.
#include "shim/channel/attachment.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/channel/succession.h"
#include "shim/core/config.h"
#include "shim/core/failure.h"
#include "shim/core/futex.h"
#include "shim/core/run_environment.h"

namespace ph {

constinit Attachment attachment;

namespace {

std::atomic<bool> is_attached{false};
std::atomic<bool> is_virtual{false};
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

// 0: it has ended. A name in /proc/PID/stat may have brackets and blanks of its own.
pid_t parent_of(pid_t pid) noexcept {
  const int fd = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[256];
  const ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  const char* name_end = std::strrchr(text, ')');  // ") S PARENT ..."
  if (name_end == nullptr || std::strlen(name_end) < 5) return 0;
  return static_cast<pid_t>(std::strtol(name_end + 4, nullptr, 10));
}

// A forked child shares the mapping but must not write to it: it only reads the clock.
void detach_in_child() noexcept {
  is_attached.store(false, std::memory_order_relaxed);
  thread_drives = false;
}

// Processes that a program starts itself have this machine's clock until they use a GPU. That of the first one goes on
// from there, and those of all ranks are alike.
void begin_clock(Switchboard& board) noexcept {
  if (run_variable(RunVariable::OwnRanks) == nullptr) return;
  Nanoseconds first_use_ns = 0;
  const Nanoseconds now_ns = real_time_since_start_ns();
  if (board.first_use_ns.compare_exchange_strong(first_use_ns, now_ns)) first_use_ns = now_ns;
  move_epoch(first_use_ns);
}

// From now on this process sees the rank's clock and the switchboard.
void see_as(Channel* channel, const std::string& directory, std::uint32_t rank) noexcept {
  attachment.channel = channel;
  attachment.board = static_cast<Switchboard*>(map_shared(directory + "/switchboard"));
  attachment.board_rows = attachment.board->ranks;
  attachment.rank = rank;
  begin_clock(*attachment.board);
  is_virtual.store(true);
}

}  // namespace

void ring_doorbell() noexcept {
  attachment.board->rings.fetch_add(1, std::memory_order_release);
  futex_wake(attachment.board->rings, 1);
}

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
  if (!channel->owner_pid.compare_exchange_strong(owner, self) && owner != self &&
      (channel->left.load() != owner || !channel->owner_pid.compare_exchange_strong(owner, self))) {
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
  if (follows(*channel)) succeed();
  return true;
}

bool descends_from_owner() noexcept {
  const auto owner = static_cast<pid_t>(attachment.channel->owner_pid.load(std::memory_order_relaxed));
  for (pid_t pid = getppid(); pid > 1; pid = parent_of(pid)) {
    if (pid == owner) return true;
  }
  return false;
}

bool attached() noexcept { return is_attached.load(std::memory_order_relaxed); }
void leave() noexcept { is_attached.store(false, std::memory_order_relaxed); }
bool clock_virtual() noexcept { return is_virtual.load(std::memory_order_relaxed); }
std::uint32_t global_rank() noexcept { return attachment.rank; }
void become_driver() noexcept { thread_drives = attached(); }
bool is_driver() noexcept { return thread_drives; }

bool is_owner() noexcept {
  return attached() &&
         attachment.channel->owner_pid.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(getpid());
}

}  // namespace ph
