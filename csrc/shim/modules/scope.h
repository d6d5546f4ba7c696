// For which nn.Module, and in which phase, a thread issues work: `current_scope` of channel/hooks.h. See scope.cc.
#pragma once

namespace ph::modules {

// Whether anybody wants to know.
bool are_followed() noexcept;

}  // namespace ph::modules
