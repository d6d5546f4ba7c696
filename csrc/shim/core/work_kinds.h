// What `--host-time counted` counts of a program, by the names that settings and the data file have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/core/api.h"

namespace ph {

enum class Work : std::uint8_t {
  Frame,        // calls of Python functions, and resumptions of generators
  Instruction,  // bytecode instructions in the functions that were called, each once a call
  Dispatch,     // operators that PyTorch's dispatcher was asked for
  Backward,     // backward passes: runs of autograd's engine
  Node,         // autograd nodes that were run
  Tensor,       // tensors made with storage of their own
  View,         // tensors made of another's storage
  Binding,      // calls from Python whose arguments PyTorch has to read
  Wrap,         // tensors that Python gets an object of
  Rewrap,       // tensors given to Python that it had an object of
  kCount
};

inline constexpr std::size_t kWorks = static_cast<std::size_t>(Work::kCount);
inline constexpr const char* kWorkNames[kWorks] = {"frame",  "instruction", "dispatch", "backward", "node",
                                                   "tensor", "view",        "binding",  "wrap",     "rewrap"};

inline constexpr std::size_t kHostCosts = static_cast<std::size_t>(HostCost::kCount);
inline constexpr const char* kHostCostNames[kHostCosts] = {"light", "launch", "library",    "copy", "event",
                                                           "sync",  "alloc",  "collective", "setup"};

}  // namespace ph
