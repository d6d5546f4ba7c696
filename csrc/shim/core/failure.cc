#include "shim/core/failure.h"

#include <unistd.h>

namespace ph {

namespace {

[[noreturn]] void leave(const std::string& message, int status) noexcept {
  _exit(write(STDERR_FILENO, message.data(), message.size()) < 0 ? 71 : status);
}

}  // namespace

void fail_internal(const std::string& what) noexcept { leave("phantora: internal error: " + what + "\n", 70); }

void fail_usage(const std::string& what) noexcept { leave("phantora: " + what + "\n", 2); }

}  // namespace ph
