// File locks that a rank holds.
#pragma once

namespace ph {

// Whether closing this descriptor would free a file lock. Keeps errno.
bool holds_lock(int descriptor) noexcept;

}  // namespace ph
