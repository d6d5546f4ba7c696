#include "shim/core/group_being_made.h"

#include <mutex>

namespace ph {

namespace {

std::mutex mutex;
std::string& ranks_of_group = *new std::string;

}  // namespace

void set_group_being_made(const char* ranks) noexcept {
  const std::lock_guard lock(mutex);
  ranks_of_group = ranks;
}

std::string group_being_made() {
  const std::lock_guard lock(mutex);
  return ranks_of_group;
}

}  // namespace ph
