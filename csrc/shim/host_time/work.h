// What a thread of the program does between two intercepted calls, as counts: `--host-time counted` turns them into
// time. The counting libraries (csrc/shim/counting) count; they are loaded only where somebody asks.
//
// A thread's counts since it last left our code, or what is left out, are *open*. They settle, which makes them time that
// is due, when it enters our code: what our own code does is then forgotten.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"
#include "shim/core/work_kinds.h"

namespace ph {

using WorkCounts = std::array<std::uint64_t, kWorks>;

// A sum over a run's iterations but the first, in which programs set up; over the whole run, if no second one was told.
class LoopSum {
 public:
  void add(std::int64_t more) noexcept { all_.fetch_add(more, std::memory_order_relaxed); }
  void end_first_iteration() noexcept { first_.store(all_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  std::int64_t value() const noexcept;

 private:
  std::atomic<std::int64_t> all_{0};
  std::atomic<std::int64_t> first_{0};
};

// Host time that was charged while a Python function ran. Never destroyed.
struct CountedFunction {
  std::string name;  // "file:line function"
  LoopSum charged;  // ns
  CountedFunction* next = nullptr;
};

struct CallNode;

// A call of a function that goes on, within those of its thread.
struct OpenCall {
  CountedFunction* function;
  OpenCall* caller;
  CallNode* node = nullptr;  // found when it is first charged
};

// Tensors given to Python since the last operator began: its results, or what a kernel of ours is called with.
struct GivenTensors {
  std::uint64_t wraps = 0;
  std::uint64_t rewraps = 0;
};

struct ThreadWork {
  WorkCounts open{};
  OpenCall* call = nullptr;  // the innermost that is counted
  std::uint32_t left_out = 0;  // within so many things that do not count, our own code among them
  GivenTensors given;
  GivenTensors kept_given;  // those before what is left out
  std::uint32_t kernels = 0;  // within so many kernels of ours
};

// Of the calling thread.
extern PH_EXPORT constinit thread_local ThreadWork thread_work;

inline void count(Work work, std::uint64_t times = 1) noexcept {
  thread_work.open[static_cast<std::size_t>(work)] += times;
}

// What only Python asks for, where the kernels of PyTorch that ours stand for run no Python.
inline void count_python(Work work, std::uint64_t times = 1) noexcept {
  if (thread_work.kernels == 0) count(work, times);
}
inline void count_given(bool is_new) noexcept { ++(is_new ? thread_work.given.wraps : thread_work.given.rewraps); }
inline void count_given_so_far() noexcept {
  count(Work::Wrap, thread_work.given.wraps);
  count(Work::Rewrap, thread_work.given.rewraps);
  thread_work.given = {};
}
inline void count_dispatch() noexcept {
  count_given_so_far();
  count(Work::Dispatch);
}

// Around a kernel of ours in the place of one of PyTorch's, which gets its tensors without Python.
inline void begin_kernel() noexcept {
  thread_work.given = {};
  ++thread_work.kernels;
}
inline void end_kernel() noexcept { --thread_work.kernels; }

// What is open becomes due, or is forgotten.
PH_EXPORT void settle_work() noexcept;
PH_EXPORT void forget_work() noexcept;
// The program begins: nothing that this thread has done before is due.
PH_EXPORT void begin_work() noexcept;

// Around what does not count: garbage collection, imports, loops that wait for others. Our own code is such a thing, too
// (host_time.cc): where garbage is collected within it, what it has done until then is not due.
PH_EXPORT void begin_left_out() noexcept;
PH_EXPORT void end_left_out() noexcept;

PH_EXPORT void add_function(CountedFunction* function) noexcept;

// What is due for this thread, which is due no more.
WorkCounts take_due() noexcept;
// The time of it, and of the intercepted call of this class itself.
Nanoseconds take_counted_ns(HostCost cost) noexcept;
void end_counted_iteration() noexcept;
// The counts of the run, what they were charged, and the functions that took most.
void emit_counted_work();

}  // namespace ph
