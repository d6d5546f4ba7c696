// Where the stack frames of this thread's callers end.
#pragma once

#include <cstddef>

namespace ph {

// From `pointer` to the end of the frame that it points into: no object reaches further. 0: it points into no frame that
// can be told.
std::size_t frame_bytes_from(const void* pointer) noexcept;

}  // namespace ph
