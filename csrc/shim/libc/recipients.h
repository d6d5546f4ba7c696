// Whom a message concerns: which rank is at the other end of a connection.
#pragma once

#include <sys/socket.h>

#include "protocol/switchboard.h"

namespace ph {

// Lets the others know that the address to which this socket is bound is ours; children tell theirs too, if it is a local
// one. Keeps errno.
void note_own_address(int socket) noexcept;

// The rank at the other end of a socket or pipe, or the one that listens at an address; everyone if that is not known.
// Nobody if it is the rank itself, by a local socket.
Recipient recipient_at(int descriptor) noexcept;
Recipient recipient_at(const sockaddr* address, socklen_t size) noexcept;

// Whether it is an address of a socket that nobody in the simulation has.
bool is_of_nobody(const sockaddr* address, socklen_t size) noexcept;

}  // namespace ph
