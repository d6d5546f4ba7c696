// Which module's forward pass has made a node of autograd's graph, by the numbers of nodes.
#pragma once

#include <cstdint>

#include "shim/modules/autograd.h"

namespace ph::modules {

// Its work begins: it has made the thread's last node, `next` is not made. What was made since the work before belongs
// to the innermost module that has both.
void note_forward(Node next, std::uint32_t module) noexcept;

// The module that has made a node. 0: none, or so long ago that nobody knows.
std::uint32_t maker_of(Node node) noexcept;

// Whether the calling thread has made a node since its last work.
bool has_made_nodes(Node next) noexcept;

// `module` is part of `outer`.
void set_outer(std::uint32_t module, std::uint32_t outer) noexcept;

// The innermost module that both are part of, or are; 0: none.
std::uint32_t innermost_of_both(std::uint32_t one, std::uint32_t other) noexcept;

}  // namespace ph::modules
