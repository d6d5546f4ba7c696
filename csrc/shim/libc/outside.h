// What ranks do to each other by other means than the GPU: messages, connections, named pipes, file locks.
// See outside.cc for the rules.
#pragma once

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
  // It was done as a whole; a part of it, or an attempt, is free.
  void succeeded() noexcept { succeeded_ = true; }

 private:
  Recipient to_ = kNobody;
  bool in_turn_ = false;
  bool succeeded_ = false;
};

// Whether this thread's calls concern others at all: cheap, and false nearly everywhere but in ranks.
bool may_act() noexcept;

// After a read that may have taken a message from outside. Keeps errno.
void note_read(int descriptor, long taken) noexcept;
// A helper thread that waits for the next message has answered the last.
void end_relay() noexcept;
// A driver slept in a loop that looks outside: the next look is a turn of it.
void note_nap() noexcept;
// Whether this call is that look, which nobody else notices. Asking makes the next one an ordinary call.
bool take_nap() noexcept;

}  // namespace ph
