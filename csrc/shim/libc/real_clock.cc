#include "shim/libc/real_clock.h"

#include <string>

#include <dlfcn.h>

#include "shim/core/failure.h"

namespace ph {

#if defined(__SANITIZE_THREAD__)
namespace {

// Look-ups of the sanitizer's own fail when it starts. It could not free what they leave to be told in the middle of a
// report, at our first look-up, and would hang. The first call tells it, the second frees it.
__attribute__((constructor)) void forget_failed_lookups() noexcept {
  dlerror();
  dlerror();
}

}  // namespace
#endif

int real_clock_gettime(clockid_t clock, timespec* time) noexcept {
  static constinit Next<int(clockid_t, timespec*)> next{"clock_gettime"};
  return next(clock, time);
}

Nanoseconds real_clock_ns(clockid_t clock) noexcept {
  timespec now{};
  real_clock_gettime(clock, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

timespec to_timespec(Nanoseconds time_ns) noexcept { return {time_ns / kNsPerSecond, time_ns % kNsPerSecond}; }

Nanoseconds to_ns(const timespec& time) noexcept {
  Nanoseconds time_ns = 0;
  if (__builtin_mul_overflow(time.tv_sec, kNsPerSecond, &time_ns) ||
      __builtin_add_overflow(time_ns, time.tv_nsec, &time_ns)) {
    return time.tv_sec < 0 ? -kNever : kNever;
  }
  return time_ns;
}

void* find_next(const char* name, const char* version) noexcept {
#if defined(__SANITIZE_THREAD__)
  version = nullptr;  // the next definition is the sanitizer's, which has no versions
#endif
  void* address = version != nullptr ? dlvsym(RTLD_NEXT, name, version) : nullptr;
  if (address == nullptr) address = dlsym(RTLD_NEXT, name);
  if (address == nullptr) fail_internal(std::string("libc has no ") + name);
  return address;
}

}  // namespace ph
