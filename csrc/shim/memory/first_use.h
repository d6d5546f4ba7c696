// What the memory of a device asks of the folders above, which define it.
#pragma once

namespace ph {

// A process is about to make a context on `device`, its first there. In a program that starts its own ranks that makes
// it one; in a helper of a rank it is told, because nobody simulates it. Defined in calls/call.cc.
void begin_use(int device) noexcept;

// Whether a context makes this process a rank, of a program that starts its own.
bool becomes_rank_by_use() noexcept;

}  // namespace ph
