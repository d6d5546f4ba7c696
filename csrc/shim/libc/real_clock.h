// Real time and the real functions of libc, for the shim's own use: the ordinary names are ours.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "protocol/nanoseconds.h"

namespace ph {

inline constexpr Nanoseconds kNsPerSecond = 1'000'000'000;

// A real clock; cheap (vDSO) and callable before any constructor has run.
Nanoseconds real_clock_ns(clockid_t clock = CLOCK_MONOTONIC) noexcept;
int real_clock_gettime(clockid_t clock, timespec* time) noexcept;

timespec to_timespec(Nanoseconds time_ns) noexcept;
// Saturates at some 292 years, so that a deadline of "never" stays one.
Nanoseconds to_ns(const timespec& time) noexcept;

// Address of the definition after ours; ends the process if there is none.
void* find_next(const char* name, const char* version) noexcept;

// A libc function behind our interposer. Resolved at first use without a lock, so that a call made while the
// dynamic linker works for this very thread is harmless.
template <typename Signature>
class Next {
 public:
  // `version` where glibc exports several: dlsym(RTLD_NEXT) gives the oldest of them.
  constexpr explicit Next(const char* name, const char* version = nullptr) : name_(name), version_(version) {}

  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    void* address = address_.load(std::memory_order_relaxed);
    if (address == nullptr) {
      address = find_next(name_, version_);
      address_.store(address, std::memory_order_relaxed);
    }
    return reinterpret_cast<Signature*>(address)(arguments...);
  }

 private:
  const char* name_;
  const char* version_;
  std::atomic<void*> address_{nullptr};
};

}  // namespace ph
