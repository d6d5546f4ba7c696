// The end of a rank as its program leaves the process.
#include <cstdint>
#include <cstdlib>

#include "shim/core/api.h"

extern "C" {

void ph_exit(std::int64_t status) noexcept;

// Calls ph_exit with the status that the process is going to end with: only libc knows it, an interpreter does not
// tell its exit handlers. To be called as late as possible, for it then runs before the destructors of static
// objects, ours among them. Called twice, the last counts. Returns 0.
PH_EXPORT int ph_exit_at_end() noexcept {
  return on_exit([](int status, void*) { ph_exit(status); }, nullptr);
}

}  // extern "C"
