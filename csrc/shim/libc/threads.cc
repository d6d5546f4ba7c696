// A thread that Python starts begins at the time of its creation.
//
// The creator goes on at once, and its clock with it; when the new thread gets a processor differs from run to run. So a
// timer would count from luck. Until the thread waits for something, its clock is the one that it was created at.
#include <new>

#include <pthread.h>
#include <semaphore.h>

#include "shim/channel/rank.h"
#include "shim/host_time/clock_marks.h"
#include "shim/libc/interpreter.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace {

struct Start {
  void* (*body)(void*);
  void* argument;
  ph::Nanoseconds born_ns;
};

void* run(void* given) {
  const Start start = *static_cast<Start*>(given);
  delete static_cast<Start*>(given);
  ph::be_born(start.born_ns);
  return start.body(start.argument);
}

}  // namespace

extern "C" {

PH_EXPORT int pthread_create(pthread_t* __restrict thread, const pthread_attr_t* __restrict attributes,
                             void* (*body)(void*), void* __restrict argument) noexcept {
  static constinit ph::Next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)> next{"pthread_create",
                                                                                                  "GLIBC_2.34"};
  auto* start = ph::attached() && ph::is_of_python(__builtin_return_address(0)) ? new (std::nothrow) Start : nullptr;
  if (start == nullptr) return next(thread, attributes, body, argument);
  *start = {body, argument, ph::peek_virtual_ns()};
  const int error = next(thread, attributes, run, start);
  if (error != 0) delete start;
  return error;
}

// Python's locks without a time-out, for which it reads a clock too.
PH_EXPORT int sem_wait(sem_t* semaphore) {
  static constinit ph::Next<int(sem_t*)> next{"sem_wait"};
  if (ph::is_lock_of_python(__builtin_return_address(0))) ph::drop_clock_read();
  ph::grow_up();
  return next(semaphore);
}

}  // extern "C"
