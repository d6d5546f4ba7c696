// What is known of a kernel from its signature (docs/records.md).
#pragma once

#include <cstdint>
#include <string>

namespace ph::cupti {

struct KernelFacts {
  std::string name;  // as the program has it, mangled; of a library's kernel what it does, as our trace calls it
  std::int32_t grid[3];  // 1 where a library chooses it, as the block
  std::int32_t block[3];
  std::int32_t shared_bytes;
};

// Stays as long as the process.
const KernelFacts& kernel_facts(std::uint32_t signature);

}  // namespace ph::cupti
