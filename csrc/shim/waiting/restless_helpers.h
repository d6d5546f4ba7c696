// A helper thread that polls without a pause waits for what it polls.
#pragma once

#include "protocol/records.h"
#include "shim/channel/rank.h"

namespace ph {

// Whether the calling thread is a helper that has asked too often while its rank's clock stood.
bool is_restless() noexcept;
// "Not ready" was the answer to a helper.
void note_not_ready() noexcept;
// Waits a while. `wait`: for what the question is about.
ReplyStatus rest_for(const Record& wait) noexcept;

}  // namespace ph
