#include "shim/nccl/failure_text.h"

#include <mutex>
#include <utility>

#include "shim/calls/library.h"

namespace ph::nccl {

namespace {

std::mutex mutex;
auto& last_text = *new std::string;
// What ncclGetLastError returned to this thread; stays valid until its next call.
thread_local std::string returned;

}  // namespace

ncclResult_t failed(ncclResult_t result, std::string text) noexcept {
  const std::lock_guard lock(mutex);
  last_text = std::move(text);
  return result;
}

const char* last_failure() noexcept {
  const std::lock_guard lock(mutex);
  returned = last_text;
  return returned.c_str();
}

}  // namespace ph::nccl

void ph::library::note_unsupported(const char* symbol) noexcept {
  nccl::failed(ncclInvalidUsage, std::string(symbol) + " : not modelled by phantora");
}
