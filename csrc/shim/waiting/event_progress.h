// What answers of the server have told about events, so that the rank need not ask again: frameworks poll, and every
// question is a message to the server and back.
//
// Events of one stream are done in the order of their instances. So two facts per stream say much: the newest instance
// that is done, and one that cannot be done before some time, nor any later one. A driver's question is answered only
// from what drivers were told: when helper threads ask differs from run to run, and the records must not depend on it.
#pragma once

#include <cstdint>
#include <span>

#include "shim/core/device.h"

namespace ph {

enum class EventProgress : std::uint8_t { Unknown, Done, Pending };

// At the rank's host clock.
EventProgress event_progress(StreamRef stream, std::uint64_t instance) noexcept;

// `news`: payload of an answer, an array of EventNews.
void learn_events(std::span<const unsigned char> news) noexcept;

}  // namespace ph
