// Rules of acts outside (docs/decisions/outside-waits.md tells why):
//
// 1. Whatever a rank does that another can notice outside the GPU happens at the rank's host clock in virtual time:
//    before the system call the thread waits until the simulation has got there. So nobody sees the future, and
//    what is there in real time has happened in virtual time.
// 2. A helper thread that has just taken a message (the daemon of a TCPStore, gloo's event loop) answers it at once:
//    the simulation stands at that message's time, held by the ranks that it may set going.
// 3. A thread that sleeps in a loop of the framework's own looks again at no time of its own: how many turns it takes
//    differs from run to run. A look is what the thread did before: the same connection, or the same bytes to a daemon
//    of its own rank. The rank does not come back for it.
// 4. Calls that do nothing (an attempt that fails, a part of a message) are free; others cost a driver a little, so
//    that ranks that act at the same time do it one after the other.
// 5. A message to the rank itself (rank 0 and the daemon of its TCPStore) waits for its time as others do, and is counted
//    as a call, because a helper of the rank may pass it on: between the leave to send it and its arrival nobody is
//    found asleep. What a helper answers to its own rank is not counted.
// 6. An act that waits in the kernel for another rank (for a lock, or the other end of a named pipe) is no call while it
//    does. Its thread sleeps; if it is a main thread, the agent looks at that, too, for once it has been woken it has
//    a lock, say, and has not told so yet.
#include "shim/libc/outside.h"

#include <algorithm>
#include <array>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <fcntl.h>
#include <linux/magic.h>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/keep_errno.h"
#include "shim/core/own_code.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace ph {

namespace {

// Assumed: a system call that sends a small message over the loopback interface.
constexpr Nanoseconds kActNs = 1000;

thread_local bool relays = false;  // this helper has taken a message and not waited for another since

// Rule 3. A loop does few different things outside (the master of a TCPStore two, a client one for each address).
class Turns {
 public:
  void begin() noexcept {
    begun_ = true;
    acted_ = false;
  }
  void end() noexcept { begun_ = false; }
  void act() noexcept {
    begun_ = false;
    acted_ = true;
  }
  bool acted() const noexcept { return acted_; }
  bool under_way() const noexcept { return begun_; }
  bool lets_time_stand() noexcept {
    const Nanoseconds now_ns = real_clock_ns();
    if (begun_ && now_ns - came_back_ns_ < kComesBackNs * config().ranks) return true;
    came_back_ns_ = now_ns;
    return false;
  }
  bool repeats(std::uint64_t what) noexcept {
    const bool known = std::find(done_.begin(), done_.end(), what) != done_.end();
    acted_ = true;
    if (known && begun_) return true;
    if (!known) done_[next_++ % done_.size()] = what;
    return false;
  }

 private:
  // A rank that has come back holds the others up for a turn or two, of some 10 ms each (assumed: a tenth of the time).
  static constexpr Nanoseconds kComesBackNs = 100'000'000;

  bool begun_ = false;
  bool acted_ = false;  // outside, since it began
  Nanoseconds came_back_ns_ = 0;  // in real time
  std::array<std::uint64_t, 8> done_{};
  std::size_t next_ = 0;
};
thread_local Turns turns;

int socket_option(int descriptor, int option) noexcept {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

bool is_stream(int descriptor) noexcept {
  const int type = socket_option(descriptor, SO_TYPE);
  return type == SOCK_STREAM || type == SOCK_SEQPACKET;
}

// Every rank is a session of its own, its children included; of other pid namespaces nothing is visible.
// Source: phantora_py/launch/starter.py.
bool is_peer_outside(int descriptor) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.pid == 0 || getsid(peer.pid) != getsid(0);
}

bool is_fifo_file_system(const struct statfs& file_system) noexcept {
  return static_cast<unsigned long>(file_system.f_type) != PIPEFS_MAGIC;
}

}  // namespace

bool is_outside_socket(int descriptor) noexcept {
  const KeepErrno keep;
  const int domain = socket_option(descriptor, SO_DOMAIN);
  return domain == AF_INET || domain == AF_INET6 || (domain == AF_UNIX && is_stream(descriptor));
}

bool is_connected_outside(int descriptor) noexcept {
  const KeepErrno keep;
  switch (socket_option(descriptor, SO_DOMAIN)) {
    case AF_INET:
    case AF_INET6: {
      sockaddr_storage peer{};
      socklen_t size = sizeof peer;
      return getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    }
    case AF_UNIX: return is_stream(descriptor) && is_peer_outside(descriptor);
    default: return false;
  }
}

bool is_named_pipe(int descriptor) noexcept {
  const KeepErrno keep;
  struct stat file{};
  struct statfs file_system{};
  return fstat(descriptor, &file) == 0 && S_ISFIFO(file.st_mode) && fstatfs(descriptor, &file_system) == 0 &&
         is_fifo_file_system(file_system);
}

bool is_named_pipe(int directory, const char* path) noexcept {
  const KeepErrno keep;
  struct stat file{};
  return path != nullptr && fstatat(directory, path, &file, 0) == 0 && S_ISFIFO(file.st_mode);
}

bool leads_out(int descriptor) noexcept {
  const KeepErrno keep;
  switch (socket_option(descriptor, SO_DOMAIN)) {
    case AF_INET:
    case AF_INET6: return true;
    case AF_UNIX: return is_stream(descriptor) && is_peer_outside(descriptor);
    default: return is_named_pipe(descriptor);
  }
}

bool may_act() noexcept { return is_owner(); }

bool is_self(Recipient recipient) noexcept { return recipient == global_rank() + 1; }

Act::Act(Recipient noticed_by) noexcept {
  if (noticed_by == kNobody || !is_owner()) return;
  const KeepErrno keep;
  const OwnCode own;
  to_ = noticed_by;
  in_turn_ = is_driver() || !relays;
  acts_ = in_turn_ || !is_self(to_);
  turns.act();
  if (in_turn_) begin_call_in_turn(to_);
  else if (acts_) begin_call(to_);
}

Act::~Act() noexcept {
  if (!acts_) return;
  const KeepErrno keep;
  const OwnCode own;
  end_call(to_);
  if (!in_turn_ || !is_driver()) return;
  resume_if_aside();  // the call itself may have had to wait for another rank
  if (!succeeded_) return;  // an attempt
  advance_host_clock(kActNs);
  tell_host_clock();
}

void Act::begin_blocking() const noexcept {
  if (!acts_) return;
  ph::begin_blocking();
  end_call(to_);
}

void Act::end_blocking() const noexcept {
  if (!acts_) return;
  const KeepErrno keep;
  begin_call(to_);
  ph::end_blocking();
}

void note_read(int descriptor, long taken) noexcept {
  if (!attached() || taken < 0) return;
  const KeepErrno keep;
  grow_up();
  if (is_driver()) {
    if (!turns.under_way() || !is_self(recipient_at(descriptor))) resume_if_aside();
  } else if (taken > 0 && leads_out(descriptor)) {
    relays = true;
  }
}

void end_relay() noexcept { relays = false; }
void note_poll_sleep() noexcept { turns.begin(); }
bool polls_outside() noexcept { return turns.acted(); }
void end_turn() noexcept { turns.end(); }
bool reads_as_turn() noexcept { return turns.lets_time_stand(); }
bool is_look(std::uint64_t what) noexcept { return turns.repeats(what); }

// FNV-1a, 64 bits. Source: isthe.com/chongo/tech/comp/fnv.
std::uint64_t hash_of(const void* data, std::size_t size) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < size; ++i) {
    value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  }
  return value;
}

}  // namespace ph
