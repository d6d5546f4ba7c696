// Where counted host time was charged: a tree of Python functions, each below those that called it.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "protocol/nanoseconds.h"
#include "shim/host_time/work.h"

namespace ph {

// nullptr: a thread that runs no Python function, as autograd's do.
void charge_call_node(OpenCall* call, Nanoseconds spent_ns) noexcept;

void end_first_iteration_of_calls() noexcept;

Nanoseconds charged_without_function() noexcept;

// As the payload CountedWork has them.
std::vector<std::tuple<std::int64_t, std::string, std::int64_t>> told_stacks();

}  // namespace ph
