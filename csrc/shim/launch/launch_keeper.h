// Launches that the GPU executor can do again (docs/decisions/kernels-by-name.md): one file for each signature in
// `<run directory>/launches`, written by the rank that has it first, before the signature is announced.
//
// The files are beside the record stream, not in it: they hold what the program's stack happened to hold, and a run
// without a GPU has no use for them. Off the hot path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shim/core/api.h"

namespace ph {

// What those say of a kernel who load it. Of parameters: a bit for each of the first 64.
struct StatedCode {
  // What a block does: expressions (sim_server/kernels/blocks.py), or empty, and the parameters that they have.
  std::string block_bytes;
  std::string block_again;
  std::string block_instructions;
  std::string block_flops;
  std::uint64_t counted_by = 0;
  std::uint64_t only_read = 0;  // parameters that are pointers which are only read through
};

// Where the code of a kernel is.
struct KernelCode {
  const void* stub = nullptr;         // of a compiled kernel: its host function, which the runtime finds it by
  std::uint64_t module_hash = 0;      // of one compiled at run time: identifies its code object, else 0
  std::uint32_t thread_bytes = 0;     // likewise: what a thread moves, 0: not known
  StatedCode stated = {};             // likewise
  std::uint32_t stored_bytes = 0;     // likewise, of all stores in its code
  std::uint32_t narrowest_store_bytes = 0;  // likewise
  std::vector<std::uint16_t> parameter_bytes = {};  // likewise, in order
  bool lists_parameters = false;      // likewise: its code object tells of them
  // Of a compiled one: the same sizes, which take some time to find, or nothing.
  std::function<std::optional<std::vector<std::uint16_t>>()> find_parameters = nullptr;
};

// What a launch has beside its shape.
struct LaunchForm {
  bool cooperative = false;
  std::uint32_t cluster[3] = {1, 1, 1};
  const void* packed = nullptr;  // the arguments as one buffer, where they are not given one by one
  std::size_t packed_bytes = 0;
};

// Whether this run has an executor.
PH_EXPORT bool keeps_launches() noexcept;

// `parameters`: how many a compiled kernel has. Nothing is written where another rank was quicker, or there is no room:
// then the executor says that it knows no launch.
void keep_launch(std::string_view signature, const KernelCode& code, std::uint16_t parameters, const LaunchForm& form,
                 void* const* arguments);

// 16 digits, as signatures and files have it.
PH_EXPORT std::string hash_text(std::uint64_t hash);

// A code object, by its hash.
PH_EXPORT void keep_image(std::uint64_t hash, const void* data, std::size_t bytes) noexcept;

}  // namespace ph
