// Uploads above the threshold whose bytes are kept: objects that programs send to each other, tables, tokens.
//
// A copy does not say what it carries, so the rule goes by size and use (docs/decisions/small-operations.md): all are kept
// up to a limit for all together, but no more of a size of which several were never asked for: read, moved, sent or
// computed with.
#pragma once

#include <cstddef>

namespace ph {

enum class LargeUpload : unsigned char {
  Kept,  // its bytes count from now on
  Forgotten,
  Empty,  // memory that the program has not written (docs/decisions/host-memory.md), or more than anybody looks at
};
LargeUpload look_at_upload(const void* destination, const void* source, std::size_t bytes) noexcept;

// Somebody reads these bytes.
void note_large_use(const void* pointer, std::size_t bytes) noexcept;
// They are overwritten or freed.
void note_large_end(const void* pointer, std::size_t bytes) noexcept;

}  // namespace ph
