#include "shim/host_time/turns.h"

#include <atomic>
#include <cstdint>

#include <unistd.h>

#include "protocol/payloads.h"
#include "shim/channel/rank.h"
#include "shim/core/json.h"
#include "shim/python/python_frame.h"

namespace ph {

namespace {

using ThreadNumber = std::uint32_t;
constexpr ThreadNumber kUnknown = 0;
// The process's first thread, and autograd's: what each of these does begins when another has handed it over.
constexpr ThreadNumber kAlone = 1;

std::atomic<ThreadNumber> threads{kAlone};
thread_local ThreadNumber own = kUnknown;

// Whose launch was the latest, and whose the one before those.
std::atomic<ThreadNumber> latest{kAlone};
std::atomic<ThreadNumber> before{kAlone};
std::atomic<bool> told{false};

ThreadNumber number_of_thread() noexcept {
  if (getpid() == gettid() || on_autograd_thread()) return kAlone;
  return threads.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

void watch_turns() noexcept {
  if (own == kUnknown) own = number_of_thread();
  const ThreadNumber last = latest.load(std::memory_order_relaxed);
  if (last == own) return;
  // Of a thread and another one that the first waits for there is one turn only.
  const bool returns = before.load(std::memory_order_relaxed) == own;
  before.store(last, std::memory_order_relaxed);
  latest.store(own, std::memory_order_relaxed);
  if (!returns || own == kAlone || last == kAlone || told.exchange(true)) return;
  emit_statistics(payload_text(payloads::Caveat{.what = "threads", .count = 1}));
}

}  // namespace ph
