// What the channel asks of the folders above it, which define these functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/nanoseconds.h"
#include "protocol/records.h"
#include "shim/core/api.h"

namespace ph {

// Id of the calling thread's innermost Python frame that is in the user's code, neither in an installed package nor in
// the standard library nor the text that starts a worker (the innermost frame that is not ours if there is none such),
// announced by a Site record on first sight. 0: not attached, no Python frame, or an interpreter whose frames cannot be
// read.
// Defined in python/python_frame.cc.
PH_EXPORT std::uint32_t current_site() noexcept;

// For which module of the program, and in which phase of training, the calling thread issues work; 0: nobody knows.
// Defined in modules/scope.cc.
std::uint32_t current_scope() noexcept;

// The thread goes on: a line of the user's own that has read a clock is marked, if the host clock has moved since that
// line's last mark. Defined in host_time/clock_marks.cc.
void mark_clock_read() noexcept;

// A driver is about to wait for the server: whether it holds Python's lock meanwhile, which is then to be told when the wait
// is over. Defined in libc/gil.cc.
bool keep_gil() noexcept;
void stop_keeping_gil() noexcept;

// A signature has got its id. Defined in host_time/host_time.cc.
void name_signature(std::uint32_t signature, std::string_view json);

// Real time since the run's start. Defined in libc/virtual_clock.cc.
Nanoseconds real_time_since_start_ns() noexcept;

// These records are about to be written: a profiler may want to know when work ran, by a number that the first gets.
// Defined in profiling/activities.cc.
void note_work(std::span<Record> records) noexcept;

// True: the record went to a capture and is not to be issued. Defined in graph/capture.cc.
bool capture_record(const Record& record) noexcept;

}  // namespace ph
