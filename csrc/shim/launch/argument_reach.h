// Which device memory a launch may write, by its arguments.
//
// Of all of which the plan proves nothing, each word that is an address of device memory counts as written through,
// whatever the parameter is called.
#pragma once

#include "shim/launch/reach_plan.h"
#include "shim/memory/managed.h"

namespace ph {

// Makes what the launch may have written unknown.
void forget_arguments(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments,
                      const LaunchForm& form) noexcept;

// Managed memory that the launch may use, from where its arguments point on.
std::vector<ManagedOperand> managed_arguments(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments,
                                              const LaunchForm& form) noexcept;

}  // namespace ph
