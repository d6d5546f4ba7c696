// What the machine code of a kernel tells about the memory that it moves.
#pragma once

#include <cstdint>
#include <string_view>

namespace ph::driver {

// Of the accesses to global memory that stand in a kernel's code.
struct CodeAccesses {
  std::uint32_t thread_bytes = 0;  // that one thread loads and stores; 0: not known, because the code loops or takes
                                   // other ways to memory
  std::uint32_t stored_bytes = 0;  // of all stores, on whatever way through the code
  std::uint32_t narrowest_store_bytes = 0;  // 0: it has no store
};

// `text`: the instructions of one kernel, compute capability 7.0 or later.
CodeAccesses code_accesses(std::string_view text) noexcept;

}  // namespace ph::driver
