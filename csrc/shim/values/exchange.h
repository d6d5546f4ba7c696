// Messages between the value threads of ranks.
//
// One Unix datagram socket per rank, <run_dir>/values-<rank>.sock. A message is cut into datagrams and put
// together again by its key. A thread that cannot send, or waits for a message, keeps taking messages off its own
// socket, so that no circle of full sockets can form. For a rank on another host the agent has such a socket
// (phantora_py/agent/relay.py).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"

namespace ph {

using Bytes = std::vector<unsigned char>;

enum class MessageKind : std::uint32_t { Contribution = 0, Result = 1, PointToPoint = 2 };

struct MessageKey {
  std::uint64_t communicator;
  std::uint64_t sequence;
  MessageKind kind;
  std::uint32_t source;       // places in the communicator: of the sender,
  std::uint32_t destination;  // and of the receiver
  auto operator<=>(const MessageKey&) const = default;
};

struct Message {
  Bytes bytes;
  Nanoseconds sent_ns = 0;  // in virtual time
};

void open_exchange() noexcept;

// The first four are called by the value thread alone. An empty message means that the sender does not know the values.
// Sends wait for nothing but room; a message to a rank that has ended is dropped.
void send_message(std::uint32_t rank, const MessageKey& key, const Message& message) noexcept;
// Whether the message has come, or never will because its communicator was abandoned.
bool has_message(const MessageKey& key) noexcept;
// Takes the message that has come; empty also when the communicator was abandoned.
Message take_message(const MessageKey& key) noexcept;
// Sleeps until a datagram has come or `wake_exchange` was called.
void await_traffic() noexcept;

// From any thread.
void wake_exchange() noexcept;
// Ends all waits for messages of this communicator.
PH_EXPORT void abandon_communicator(std::uint64_t communicator) noexcept;

}  // namespace ph
