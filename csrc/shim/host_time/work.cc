#include "shim/host_time/work.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/json.h"
#include "shim/host_time/call_tree.h"

namespace ph {

constinit thread_local ThreadWork thread_work;

namespace {

constexpr std::uint64_t kPicoPerNano = 1000;
constexpr std::size_t kFunctionsTold = 40;

thread_local WorkCounts due{};

std::array<LoopSum, kWorks> counted;
std::array<LoopSum, kHostCosts> calls;
std::atomic<std::uint32_t> ended_iterations{0};
std::atomic<CountedFunction*> functions{nullptr};

using Told = std::tuple<std::string, std::int64_t, std::int64_t>;

Told told(const char* name, const LoopSum& sum, std::uint64_t each_ps) {
  const auto times = static_cast<std::uint64_t>(sum.value());
  return {name, sum.value(), static_cast<std::int64_t>(times * each_ps / kPicoPerNano)};
}

void settle_open() noexcept {
  if (thread_work.left_out == 0 && is_driver()) {
    for (std::size_t i = 0; i < kWorks; ++i) due[i] += thread_work.open[i];
  }
  thread_work.open = {};
}

}  // namespace

std::int64_t LoopSum::value() const noexcept {
  const std::int64_t all = all_.load(std::memory_order_relaxed);
  return ended_iterations.load(std::memory_order_relaxed) > 1 ? all - first_.load(std::memory_order_relaxed) : all;
}

void forget_work() noexcept {
  thread_work.open = {};
  thread_work.given = {};
}

void settle_work() noexcept {
  count_given_so_far();
  settle_open();
}

WorkCounts take_due() noexcept { return std::exchange(due, {}); }

void begin_work() noexcept {
  forget_work();
  due = {};
}

// Garbage may be collected while a kernel of ours is given its tensors: whose these are is not known yet.
void begin_left_out() noexcept {
  settle_open();
  if (thread_work.left_out++ == 0) thread_work.kept_given = thread_work.given;
}

void end_left_out() noexcept {
  forget_work();
  if (--thread_work.left_out == 0) thread_work.given = thread_work.kept_given;
}

void add_function(CountedFunction* function) noexcept {
  function->next = functions.load(std::memory_order_relaxed);
  while (!functions.compare_exchange_weak(function->next, function, std::memory_order_release)) {
  }
}

Nanoseconds take_counted_ns(HostCost cost) noexcept {
  const auto kind = static_cast<std::size_t>(cost);
  const Config& c = config();
  std::uint64_t spent_ps = c.call_ps[kind];
  calls[kind].add(1);
  const WorkCounts done = take_due();
  for (std::size_t i = 0; i < kWorks; ++i) {
    if (done[i] == 0) continue;
    spent_ps += done[i] * c.work_ps[i];
    counted[i].add(static_cast<std::int64_t>(done[i]));
  }
  // Nothing is carried over: equal work takes the same time, whatever a rank did before.
  const auto spent_ns = static_cast<Nanoseconds>((spent_ps + kPicoPerNano / 2) / kPicoPerNano);
  if (thread_work.call != nullptr) thread_work.call->function->charged.add(spent_ns);
  charge_call_node(thread_work.call, spent_ns);
  return spent_ns;
}

void end_counted_iteration() noexcept {
  if (ended_iterations.fetch_add(1, std::memory_order_relaxed) != 0) return;
  for (LoopSum& one : counted) one.end_first_iteration();
  for (LoopSum& one : calls) one.end_first_iteration();
  for (CountedFunction* one = functions.load(std::memory_order_acquire); one != nullptr; one = one->next)
    one->charged.end_first_iteration();
  end_first_iteration_of_calls();
}

void emit_counted_work() {
  const Config& c = config();
  payloads::CountedWork work;
  for (std::size_t i = 0; i < kWorks; ++i) work.works.push_back(told(kWorkNames[i], counted[i], c.work_ps[i]));
  for (std::size_t i = 0; i < calls.size(); ++i) work.calls.push_back(told(kHostCostNames[i], calls[i], c.call_ps[i]));
  work.elsewhere_ns = charged_without_function();
  work.stacks = told_stacks();

  std::vector<const CountedFunction*> sorted;
  for (const CountedFunction* one = functions.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    if (one->charged.value() > 0) sorted.push_back(one);
  }
  std::sort(sorted.begin(), sorted.end(), [](const CountedFunction* a, const CountedFunction* b) {
    const Nanoseconds a_ns = a->charged.value();
    const Nanoseconds b_ns = b->charged.value();
    return a_ns != b_ns ? a_ns > b_ns : a->name < b->name;
  });
  if (sorted.size() > kFunctionsTold) sorted.resize(kFunctionsTold);
  for (const CountedFunction* one : sorted) work.functions.emplace_back(one->name, one->charged.value());
  emit_statistics(payload_text(work));
}

}  // namespace ph
