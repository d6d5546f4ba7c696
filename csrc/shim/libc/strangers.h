// Connections to strangers: processes that are no rank's, and that no rank has started. See strangers.cc.
#pragma once

#include <sys/socket.h>

namespace ph {

// A rank has connected this socket, or has begun to. Keeps errno.
void note_connection(int socket, const sockaddr* address, socklen_t size) noexcept;
// This descriptor is about to be closed.
void forget_connection(int descriptor) noexcept;
// Whether the rank has an open connection to a stranger: what it waits for may come from there.
bool talks_to_strangers() noexcept;

}  // namespace ph
