// What ranks do to each other by other means than the GPU: messages, connections, named pipes, file locks.
// See outside.cc for the rules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/libc/recipients.h"

namespace ph {

// Whether what is done to this descriptor can be noticed by another rank: it is a socket that leads out of the
// rank, or a named pipe. Looked up at every call, so that nothing can be out of date.
bool leads_out(int descriptor) noexcept;
// Sockets alone; `Unconnected` ones too where the call is one that connects them.
bool is_outside_socket(int descriptor) noexcept;
bool is_connected_outside(int descriptor) noexcept;
bool is_named_pipe(int descriptor) noexcept;
bool is_named_pipe(int directory, const char* path) noexcept;

// An act that others notice. The constructor waits for its time, the destructor lets others act.
class Act {
 public:
  // kNobody makes it an ordinary call.
  explicit Act(Recipient noticed_by) noexcept;
  ~Act() noexcept;
  Act(const Act&) = delete;
  Act& operator=(const Act&) = delete;
  // The system call, which may wait in the kernel for another rank. Meanwhile no call to others is under way (see
  // rule 6 in outside.cc).
  template <typename Call>
  auto in_kernel(Call call) noexcept(noexcept(call())) {
    begin_blocking();
    const auto result = call();
    end_blocking();
    return result;
  }
  // It was done as a whole; a part of it, or an attempt, is free.
  void succeeded() noexcept { succeeded_ = true; }

 private:
  void begin_blocking() const noexcept;
  void end_blocking() const noexcept;

  bool acts_ = false;
  Recipient to_ = kNobody;
  bool in_turn_ = false;
  bool succeeded_ = false;
};

// Whether this thread's calls concern others at all: cheap, and false nearly everywhere but in ranks.
bool may_act() noexcept;
bool is_self(Recipient recipient) noexcept;

// After a read that may have taken a message from outside. Keeps errno.
void note_read(int descriptor, long taken) noexcept;
// A helper thread that waits for the next message has answered the last.
void end_relay() noexcept;
// This thread slept in a loop that looks outside: what it has done before and does again now is a turn of that loop.
void note_poll_sleep() noexcept;
// Whether this thread has acted or looked outside since it last slept so.
bool polls_outside() noexcept;
// Whether this call is such a look, which nobody else notices; `what`: what it does, as a hash. An ordinary call ends the
// turn, and is remembered.
bool is_look(std::uint64_t what) noexcept;
void end_turn() noexcept;
// Whether a clock read of the loop's own may tell the time at which its rank was set aside. Now and then it may not: its
// time-out comes in virtual time.
bool reads_as_turn() noexcept;
std::uint64_t hash_of(const void* data, std::size_t size) noexcept;

}  // namespace ph
