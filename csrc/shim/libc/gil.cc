#include "shim/libc/gil.h"

#include <atomic>

#include "shim/channel/hooks.h"
#include "shim/libc/interpreter.h"

namespace ph {

namespace {
std::atomic<bool> is_kept{false};
std::atomic<pthread_cond_t*> condition_of_gil{nullptr};
std::atomic<pthread_mutex_t*> mutex_of_gil{nullptr};
}  // namespace

bool is_gil_kept(pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept {
  condition_of_gil.store(condition);
  mutex_of_gil.store(mutex);
  return is_kept.load();
}

bool keep_gil() noexcept {
  if (!holds_gil()) return false;
  is_kept.store(true);
  return true;
}

void stop_keeping_gil() noexcept {
  is_kept.store(false);
  pthread_mutex_t* const mutex = mutex_of_gil.load();
  if (mutex == nullptr) return;
  // Who has seen that the lock was kept sleeps by now, for he held this until then.
  pthread_mutex_lock(mutex);
  pthread_cond_broadcast(condition_of_gil.load());
  pthread_mutex_unlock(mutex);
}

}  // namespace ph
