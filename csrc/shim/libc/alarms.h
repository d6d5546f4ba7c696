// A thread's wait that ends at a deadline in virtual time, unless what it waits for happens before. See alarms.cc.
#pragma once

#include <atomic>
#include <cstdint>

#include <pthread.h>
#include <sys/types.h>

#include "protocol/nanoseconds.h"

namespace ph {

// Whether the calling thread's time-outs are alarms: it is one of the program's own, in a rank.
bool sets_alarms() noexcept;

// It must not be blocked in a wait that an alarm is to end.
int alarm_signal() noexcept;

// From its construction to its end the simulation does not pass `deadline_ns` without letting the thread know: then
// `rang` is true, and the thread's system call is interrupted, its condition variable is notified, and its `sleep` ends.
class Alarm {
 public:
  explicit Alarm(Nanoseconds deadline_ns, pthread_cond_t* condition = nullptr,
                 pthread_mutex_t* mutex = nullptr) noexcept;
  ~Alarm() noexcept;
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  bool rang() const noexcept { return rang_.load(std::memory_order_acquire) != 0; }
  // False after a signal that the program handles.
  bool sleep() noexcept;

 private:
  friend class Timekeeper;

  const Nanoseconds deadline_ns_;
  pthread_cond_t* const condition_;
  pthread_mutex_t* const mutex_;
  const pid_t thread_;
  std::atomic<std::uint32_t> rang_{0};  // futex word
  bool heard_ = false;
  Alarm* next_ = nullptr;
};

}  // namespace ph
