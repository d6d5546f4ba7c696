// What `phantora run` tells its processes by their environment. A program may empty that before it uses a GPU, as tests do
// that try what a library makes of missing variables.
#pragma once

namespace ph {

enum class RunVariable { RunDir, Rank, OwnRanks };

// Null if it is not set. Where RunDir is not, the environment was emptied: what keep_run_environment() found then holds.
const char* run_variable(RunVariable which) noexcept;

// The environment is whole now. Once when the library is loaded, and again in a process that was forked and given another.
void keep_run_environment() noexcept;

}  // namespace ph
