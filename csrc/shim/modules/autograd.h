// The node of autograd's graph that a thread evaluates, and the nodes that a forward pass makes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ph::modules {

struct Node {
  std::uint64_t sequence;  // in the order in which its thread made them
  std::uint64_t thread;    // that made it, as PyTorch numbers threads

  bool operator==(const Node&) const = default;
};

// PyTorch's functions, and where its nodes have their numbers, in bytes. False: it lacks one of these functions.
bool find_autograd(std::size_t sequence_at, std::size_t thread_at) noexcept;

// Nodes that no forward pass made, those that add up gradients, have this number.
inline constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};

// False: the calling thread evaluates none.
bool evaluated_node(Node& node) noexcept;

// The number of the next node that the calling thread makes, and of the thread.
Node next_node() noexcept;

}  // namespace ph::modules
