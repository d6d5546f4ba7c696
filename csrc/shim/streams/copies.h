// Copies and fills, as runtime and driver API share them: CUDA's rules for what waits, the record, the values.
#pragma once

#include <cstddef>

#include "shim/core/device.h"

namespace ph {

// Direction by what the pointers are, as with cudaMemcpyDefault.
PH_EXPORT CopyKind copy_kind(const void* destination, const void* source) noexcept;

// Whether the program may use all of these rows, or elements, so: what both APIs ask before a copy or a fill.
PH_EXPORT bool can_copy(const void* destination, std::size_t destination_pitch, const void* source,
                        std::size_t source_pitch, std::size_t width, std::size_t height) noexcept;
PH_EXPORT bool can_fill(const void* destination, std::size_t element_bytes, std::size_t count) noexcept;

// Rows of `width` elements, each `pitch` bytes after the one before, in planes that lie likewise.
struct Rows {
  std::size_t pitch;
  std::size_t width;
  std::size_t height;
  std::size_t plane_pitch = 0;
  std::size_t depth = 1;
};
PH_EXPORT bool can_fill_rows(const void* destination, std::size_t element_bytes, const Rows& rows) noexcept;

// Asynchronous with respect to the host as far as CUDA is: a copy to or from pageable memory may wait.
// Source: CUDA runtime API, "API synchronization behavior".
PH_EXPORT void copy_async(void* destination, const void* source, std::size_t bytes, StreamRef stream) noexcept;
PH_EXPORT void copy_sync(void* destination, const void* source, std::size_t bytes, StreamRef stream) noexcept;
// Rows of `width` bytes; one record of width * height bytes.
PH_EXPORT void copy_2d(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
                       std::size_t width, std::size_t height, StreamRef stream, bool synchronous) noexcept;

// `value` repeated over `count` elements of `element_bytes` (1, 2 or 4).
PH_EXPORT void fill_async(void* destination, unsigned value, std::size_t element_bytes, std::size_t count,
                          StreamRef stream) noexcept;
// The same in rows; one record of all bytes.
PH_EXPORT void fill_rows(void* destination, unsigned value, std::size_t element_bytes, const Rows& rows,
                         StreamRef stream) noexcept;

}  // namespace ph
