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

std::array<std::atomic<std::uint64_t>, kWorks> counted{};
std::array<std::atomic<std::uint64_t>, kHostCosts> calls{};
std::atomic<CountedFunction*> functions{nullptr};

using Told = std::tuple<std::string, std::int64_t, std::int64_t>;

Told told(const char* name, std::uint64_t count, std::uint64_t each_ps) {
  return {name, static_cast<std::int64_t>(count), static_cast<std::int64_t>(count * each_ps / kPicoPerNano)};
}

}  // namespace

void forget_work() noexcept { thread_work.open = {}; }

void settle_work() noexcept {
  if (thread_work.left_out == 0 && is_driver()) {
    for (std::size_t i = 0; i < kWorks; ++i) due[i] += thread_work.open[i];
  }
  forget_work();
}

WorkCounts take_due() noexcept { return std::exchange(due, {}); }

void begin_work() noexcept {
  forget_work();
  due = {};
}

void begin_left_out() noexcept {
  settle_work();
  ++thread_work.left_out;
}

void end_left_out() noexcept {
  forget_work();
  --thread_work.left_out;
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
  calls[kind].fetch_add(1, std::memory_order_relaxed);
  const WorkCounts done = take_due();
  for (std::size_t i = 0; i < kWorks; ++i) {
    if (done[i] == 0) continue;
    spent_ps += done[i] * c.work_ps[i];
    counted[i].fetch_add(done[i], std::memory_order_relaxed);
  }
  // Nothing is carried over: equal work takes the same time, whatever a rank did before.
  const auto spent_ns = static_cast<Nanoseconds>((spent_ps + kPicoPerNano / 2) / kPicoPerNano);
  if (thread_work.call != nullptr)
    thread_work.call->function->charged_ns.fetch_add(spent_ns, std::memory_order_relaxed);
  charge_call_node(thread_work.call, spent_ns);
  return spent_ns;
}

void emit_counted_work() {
  const Config& c = config();
  payloads::CountedWork work;
  for (std::size_t i = 0; i < kWorks; ++i) work.works.push_back(told(kWorkNames[i], counted[i].load(), c.work_ps[i]));
  for (std::size_t i = 0; i < calls.size(); ++i)
    work.calls.push_back(told(kHostCostNames[i], calls[i].load(), c.call_ps[i]));
  work.elsewhere_ns = charged_without_function();
  work.stacks = told_stacks();

  std::vector<const CountedFunction*> sorted;
  for (const CountedFunction* one = functions.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    if (one->charged_ns.load() > 0) sorted.push_back(one);
  }
  std::sort(sorted.begin(), sorted.end(), [](const CountedFunction* a, const CountedFunction* b) {
    const Nanoseconds a_ns = a->charged_ns.load();
    const Nanoseconds b_ns = b->charged_ns.load();
    return a_ns != b_ns ? a_ns > b_ns : a->name < b->name;
  });
  if (sorted.size() > kFunctionsTold) sorted.resize(kFunctionsTold);
  for (const CountedFunction* one : sorted) work.functions.emplace_back(one->name, one->charged_ns.load());
  emit_statistics(payload_text(work));
}

}  // namespace ph
