#include "shim/core/failure.h"

#include <fcntl.h>
#include <unistd.h>

#include "shim/core/run_environment.h"

namespace ph {

namespace {

[[noreturn]] void leave(const std::string& message, int status) noexcept {
  _exit(write(STDERR_FILENO, message.data(), message.size()) < 0 ? 71 : status);
}

// Whoever has started this process may wait for it for ever, or go on without it, so the agent is told, of the first one
// (phantora_py/agent/own_ranks.py). The text comes there whole: it is one write.
void leave_refusal(const std::string& what) noexcept {
  const char* directory = run_variable(RunVariable::RunDir);
  if (directory == nullptr) return;
  const int file = open((std::string(directory) + "/refusal").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return;  // not the first
  [[maybe_unused]] const auto written = write(file, what.data(), what.size());
  close(file);
}

}  // namespace

void fail_internal(const std::string& what) noexcept { leave("phantora: internal error: " + what + "\n", 70); }

void fail_usage(const std::string& what) noexcept {
  leave_refusal(what);
  leave("phantora: " + what + "\n", 2);
}

}  // namespace ph
