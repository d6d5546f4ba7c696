// Sleeping on and waking a word that two processes share.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ph {

// Returns when the word may have changed, after a signal, or after `timeout` (relative, real time).
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       const timespec* timeout = nullptr) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout, nullptr, 0);
}

inline void futex_wake(const std::atomic<std::uint32_t>& word, int waiters) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, waiters, nullptr, nullptr, 0);
}

// A mutex in shared memory, held for some tens of nanoseconds. 0 free, 1 held, 2 held and waited for.
class SharedLock {
 public:
  explicit SharedLock(std::atomic<std::uint32_t>& word) noexcept : word_(word) {
    std::uint32_t state = 0;
    if (word_.compare_exchange_strong(state, 1, std::memory_order_acquire)) return;
    while (word_.exchange(2, std::memory_order_acquire) != 0) futex_wait(word_, 2);
  }
  ~SharedLock() noexcept {
    if (word_.exchange(0, std::memory_order_release) == 2) futex_wake(word_, 1);
  }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  std::atomic<std::uint32_t>& word_;
};

}  // namespace ph
