#include "shim/values/value_queue.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/values/exchange.h"
#include "shim/values/large_uploads.h"

namespace ph {

namespace {

// How far an operation may overtake others. Every look at the queue goes through so many at most (assumed enough).
constexpr std::size_t kMostOvertaken = 256;

struct Operation {
  std::function<bool()> run;
  Needs needs;
  Touches touches;
  std::uint64_t ticket;
  Nanoseconds time_ns;  // of its values, as far as is known

  bool may_touch_anything() const noexcept { return touches.empty(); }
};

struct Queue {
  std::mutex mutex;
  std::list<Operation> waiting;  // each until it is done; only the thread that works through it removes any
  std::size_t need_peers = 0;    // of those in it
  bool running = false;          // a thread is working through the queue
  std::uint64_t issued = 0;
  std::atomic<std::uint64_t> done{0};
  std::vector<Operation> ahead;  // that are done, and whose time the host clock has not reached
  // Touched by the thread that works through the queue:
  KnownRanges known;
  Nanoseconds time_ns = 0;  // of the operation that runs
};

// Never destroyed: the value thread outlives the program's static objects.
Queue& queue = *new Queue;
thread_local bool inside_operation = false;

bool overlap(const Touch& one, const void* pointer, std::size_t bytes) noexcept {
  const auto* begin = static_cast<const char*>(one.pointer);
  const auto* other = static_cast<const char*>(pointer);
  return begin < other + bytes && other < begin + one.bytes;
}

// Whether they do not commute.
bool conflict(const Operation& one, const Operation& other) noexcept {
  if (one.may_touch_anything() || other.may_touch_anything()) return true;
  return std::any_of(one.touches.begin(), one.touches.end(), [&](const Touch& a) {
    return std::any_of(other.touches.begin(), other.touches.end(),
                       [&](const Touch& b) { return (a.writes || b.writes) && overlap(a, b.pointer, b.bytes); });
  });
}

// Called with the lock held.
void come_after(Operation& operation, const Operation& before) noexcept {
  if (before.time_ns > operation.time_ns && conflict(before, operation)) operation.time_ns = before.time_ns;
}

// Those after it may be made of its values. Called with the lock held.
void note_done(std::list<Operation>::iterator done) noexcept {
  for (auto later = std::next(done); later != queue.waiting.end(); ++later) come_after(*later, *done);
  const Nanoseconds now_ns = host_clock_ns();
  std::erase_if(queue.ahead, [now_ns](const Operation& one) { return one.time_ns <= now_ns; });
  if (done->time_ns > now_ns) queue.ahead.push_back(std::move(*done));
}

// Memory of the operations that wait for peers.
class Reserved {
 public:
  void add(const Operation& operation) {
    for (const Touch& touch : operation.touches) (touch.writes ? written_ : read_).add(touch.pointer, touch.bytes);
  }
  bool holds_up(const Operation& operation) const {
    return std::any_of(operation.touches.begin(), operation.touches.end(), [this](const Touch& touch) {
      return written_.known_bytes(touch.pointer, touch.bytes) != 0 ||
             (touch.writes && read_.known_bytes(touch.pointer, touch.bytes) != 0);
    });
  }

 private:
  KnownRanges written_;
  KnownRanges read_;
};

// Called with the lock held, which it gives up meanwhile. False: it waits for peers.
bool carry_out(std::unique_lock<std::mutex>& lock, Operation& operation) noexcept {
  queue.time_ns = operation.time_ns;
  lock.unlock();
  inside_operation = true;
  const bool is_done = operation.run();
  inside_operation = false;
  operation.time_ns = queue.time_ns;
  if (is_done) operation.run = nullptr;  // its captures end before anybody learns that it is done
  lock.lock();
  return is_done;
}

// Runs what can run now, once through the queue; returns whether something got done. Called with the lock held.
bool run_once(std::unique_lock<std::mutex>& lock, bool on_value_thread) noexcept {
  Reserved reserved;
  bool any_done = false;
  std::size_t overtaken = 0;
  for (auto operation = queue.waiting.begin(); operation != queue.waiting.end();) {
    if (operation->needs == Needs::Peers && !on_value_thread) break;
    if (overtaken != 0 && operation->may_touch_anything()) break;
    if (!reserved.holds_up(*operation) && carry_out(lock, *operation)) {
      if (operation->needs == Needs::Peers) --queue.need_peers;
      note_done(operation);
      operation = queue.waiting.erase(operation);
      queue.done.fetch_add(1, std::memory_order_release);
      queue.done.notify_all();
      any_done = true;
      continue;
    }
    if (operation->may_touch_anything() || ++overtaken == kMostOvertaken) break;
    reserved.add(*operation);
    ++operation;
  }
  return any_done;
}

void run_queue(std::unique_lock<std::mutex>& lock, bool on_value_thread) noexcept {
  queue.running = true;
  while (run_once(lock, on_value_thread)) {
  }
  queue.running = false;
}

[[noreturn]] void value_thread() noexcept {
  for (;;) {
    std::unique_lock lock(queue.mutex);
    if (!queue.running) run_queue(lock, true);
    lock.unlock();
    await_traffic();
  }
}

// Until no operation issued so far is left of which `concerns` holds.
template <typename Predicate>
void await_operations(Predicate concerns) noexcept {
  if (inside_operation) return;
  std::unique_lock lock(queue.mutex);
  const auto is_meant = [&concerns, last = queue.issued](const Operation& operation) {
    return operation.ticket <= last && (operation.may_touch_anything() || concerns(operation));
  };
  for (;;) {
    const std::uint64_t done = queue.done.load(std::memory_order_acquire);
    if (std::none_of(queue.waiting.begin(), queue.waiting.end(), is_meant)) break;
    lock.unlock();
    begin_value_wait();
    queue.done.wait(done, std::memory_order_acquire);
    end_value_wait();
    lock.lock();
  }
  Nanoseconds time_ns = 0;
  for (const Operation& operation : queue.ahead) {
    if (is_meant(operation)) time_ns = std::max(time_ns, operation.time_ns);
  }
  lock.unlock();
  note_values(time_ns);
}

}  // namespace

void enqueue_value_operation(std::function<bool()> operation, Needs needs, Touches touches) noexcept {
  for (const Touch& touch : touches) {
    if (!touch.writes) note_large_use(touch.pointer, touch.bytes);
  }
  std::unique_lock lock(queue.mutex);
  queue.waiting.push_back({std::move(operation), needs, std::move(touches), ++queue.issued, host_clock_ns()});
  for (const Operation& before : queue.ahead) come_after(queue.waiting.back(), before);
  if (needs == Needs::Peers) ++queue.need_peers;
  if (queue.running) return;
  if (queue.need_peers == 0) run_queue(lock, false);
  const bool left = !queue.waiting.empty();
  lock.unlock();
  if (left) wake_exchange();
}

void await_host_writes() noexcept {
  await_operations([](const Operation& operation) {
    return std::any_of(operation.touches.begin(), operation.touches.end(),
                       [](const Touch& touch) { return touch.writes && !is_device_pointer(touch.pointer); });
  });
}

bool writes_are_queued(const void* pointer, std::size_t bytes) noexcept {
  const std::lock_guard lock(queue.mutex);
  return std::any_of(queue.waiting.begin(), queue.waiting.end(), [pointer, bytes](const Operation& operation) {
    return operation.may_touch_anything() ||
           std::any_of(operation.touches.begin(), operation.touches.end(),
                       [pointer, bytes](const Touch& touch) { return touch.writes && overlap(touch, pointer, bytes); });
  });
}

void await_values_of(const void* pointer, std::size_t bytes) noexcept {
  await_operations([pointer, bytes](const Operation& operation) {
    return std::any_of(operation.touches.begin(), operation.touches.end(),
                       [pointer, bytes](const Touch& touch) { return overlap(touch, pointer, bytes); });
  });
}

void await_all_values(Nanoseconds patience_ns) noexcept {
  constexpr Nanoseconds kPauseNs = 1'000'000;
  std::uint64_t seen = 0;
  for (Nanoseconds waited_ns = 0; waited_ns < patience_ns; waited_ns += kPauseNs) {
    {
      const std::lock_guard lock(queue.mutex);
      if (queue.waiting.empty()) return;
    }
    const std::uint64_t done = queue.done.load(std::memory_order_acquire);
    if (done != std::exchange(seen, done)) waited_ns = 0;
    const timespec pause{0, kPauseNs};
    syscall(SYS_nanosleep, &pause, nullptr);  // the C library's is virtual
  }
}

void start_value_thread() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    open_exchange();
    // Signals are for the program's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(value_thread).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
}

Nanoseconds& value_time_ns() noexcept { return queue.time_ns; }
KnownRanges& known_now() noexcept { return queue.known; }

}  // namespace ph
