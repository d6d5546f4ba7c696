#include "shim/core/failure.h"

#include <unistd.h>

namespace ph {

void fail_internal(const std::string& what) noexcept {
  const std::string message = "phantora: internal error: " + what + "\n";
  if (write(STDERR_FILENO, message.data(), message.size()) < 0) _exit(71);
  _exit(70);
}

}  // namespace ph
