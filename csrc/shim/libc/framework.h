// Telling a sleep of the training framework's own C++ code from one that the program asks for.
#pragma once

namespace ph {

// `caller`: the address that the libc function will return to. True for PyTorch's libraries (libtorch*, libc10*).
bool is_frameworks_own(const void* caller) noexcept;

}  // namespace ph
