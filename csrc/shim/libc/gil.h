// Python's lock of its interpreter (GIL), while a driver that holds it waits for the server.
//
// Whoever wants the lock asks for it every 5 ms. With a dozen such threads the agent never sees the rank asleep, so that the
// simulation waits for it, and it for the simulation. But nobody gets the lock before the driver goes on: till then they
// sleep.
#pragma once

#include <ctime>

#include <pthread.h>

namespace ph {

// Whether a wait for the lock, by the thread that calls, would be in vain. `condition`, `mutex`: the lock's; the second is
// held. If so, the thread is to wait until it is notified.
bool is_gil_kept(pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept;

}  // namespace ph
