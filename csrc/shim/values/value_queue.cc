#include "shim/values/value_queue.h"

#include <atomic>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

#include <pthread.h>

#include "shim/values/exchange.h"

namespace ph {

namespace {

struct Operation {
  std::function<void()> run;
  Needs needs;
};

struct Queue {
  std::mutex mutex;
  std::deque<Operation> waiting;
  std::size_t need_peers = 0;  // of those waiting or running
  bool running = false;        // a thread is working through the queue
  std::uint64_t issued = 0;
  std::atomic<std::uint64_t> done{0};
  KnownRanges known;           // touched by the thread that works through the queue
};

// Never destroyed: the value thread outlives the program's static objects.
Queue& queue = *new Queue;
thread_local bool inside_operation = false;

// Runs what is queued, up to the first operation that this thread may not run. Called with the lock held.
void run_queue(std::unique_lock<std::mutex>& lock, bool on_value_thread) noexcept {
  queue.running = true;
  inside_operation = true;
  while (!queue.waiting.empty() && (on_value_thread || queue.waiting.front().needs == Needs::Nothing)) {
    Operation operation = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    lock.unlock();
    operation.run();
    operation.run = nullptr;  // its captures end before anybody learns that it is done
    queue.done.fetch_add(1, std::memory_order_release);
    queue.done.notify_all();
    lock.lock();
    if (operation.needs == Needs::Peers) --queue.need_peers;
  }
  inside_operation = false;
  queue.running = false;
  if (!queue.waiting.empty()) wake_exchange();
}

[[noreturn]] void value_thread() noexcept {
  for (;;) {
    std::unique_lock lock(queue.mutex);
    if (!queue.running) run_queue(lock, true);
    lock.unlock();
    await_traffic();
  }
}

}  // namespace

std::uint64_t enqueue_value_operation(std::function<void()> operation, Needs needs) noexcept {
  std::unique_lock lock(queue.mutex);
  queue.waiting.push_back({std::move(operation), needs});
  const std::uint64_t ticket = ++queue.issued;
  if (needs == Needs::Peers) ++queue.need_peers;
  if (queue.running) return ticket;
  if (queue.need_peers == 0) {
    run_queue(lock, false);
  } else {
    lock.unlock();
    wake_exchange();
  }
  return ticket;
}

void await_value_operation(std::uint64_t ticket) noexcept {
  if (inside_operation) return;
  for (;;) {
    const std::uint64_t done = queue.done.load(std::memory_order_acquire);
    if (done >= ticket) return;
    queue.done.wait(done, std::memory_order_acquire);
  }
}

std::uint64_t last_value_ticket() noexcept {
  const std::lock_guard lock(queue.mutex);
  return queue.issued;
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

KnownRanges& known_now() noexcept { return queue.known; }

}  // namespace ph
