#include "shim/profiling/activities.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pthread.h>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/libc/virtual_clock.h"
#include "shim/profiling/nccl_kernels.h"

namespace ph::profiling {

namespace detail {
std::atomic<std::uint32_t> gathered{0};
}

namespace {

// The call by which libraries launch their kernels, as NVIDIA's own do.
constexpr const char* kLibraryLaunch = "cudaLaunchKernelExC";
constexpr std::size_t kExternalKinds = 8;  // CUPTI 13 has six

constexpr std::size_t kNumberAt = KernelArg::Activity;
static_assert(kNumberAt == std::size_t{CopyArg::Activity} && kNumberAt == std::size_t{FillArg::Activity} &&
              kNumberAt == std::size_t{NcclLaunchArg::Activity});

std::mutex mutex;  // guards what follows; nothing is called with it held
auto& ended = *new std::vector<Activity>;
auto& work_under_way = *new std::unordered_map<std::uint64_t, Activity>;  // by the number that its record has
std::uint64_t numbers = 0;

std::atomic<std::uint32_t> correlations{0};
thread_local HostCall* call_of_thread = nullptr;

// Never destroyed: threads still make calls while they end.
auto& external_numbers() {
  static thread_local auto& stacks = *new std::array<std::vector<std::uint64_t>, kExternalKinds>;
  return stacks;
}

void add(Activity activity) {
  const std::lock_guard lock(mutex);
  ended.push_back(std::move(activity));
}

bool is_work(RecordKind kind) noexcept {
  return kind == RecordKind::Kernel || kind == RecordKind::Copy || kind == RecordKind::Fill ||
         kind == RecordKind::NcclLaunch;
}

Activity work_of(std::span<const Record> records) {
  const Record& head = records.front();
  Activity work{.device = head.device, .stream = head.stream, .detail = head.id};
  if (head.kind == RecordKind::Kernel) {
    work.kind = Kind::Kernel;
  } else if (head.kind == RecordKind::Copy) {
    work.kind = Kind::Copy;
    work.flags = head.flags;
    work.amount = head.arg[CopyArg::Bytes];
  } else if (head.kind == RecordKind::Fill) {
    work.kind = Kind::Fill;
    work.amount = head.arg[FillArg::Bytes];
  } else {
    work.kind = Kind::Communication;
    work.name = nccl_kernel_name(records.subspan(1));
  }
  return work;
}

void add_call(Kind kind, const char* name, std::uint32_t correlation, Nanoseconds start_ns, Nanoseconds end_ns) {
  if (gathers(Kind::External)) {
    const auto& stacks = external_numbers();
    for (std::uint32_t external = 0; external < kExternalKinds; ++external) {
      if (stacks[external].empty()) continue;
      add({.kind = Kind::External, .correlation = correlation, .detail = external, .amount = stacks[external].back()});
    }
  }
  if (!gathers(kind)) return;
  add({.kind = kind,
       .correlation = correlation,
       .thread = pthread_self(),
       .call = name,
       .start_ns = start_ns,
       .end_ns = end_ns});
}

std::uint32_t next_correlation() noexcept { return correlations.fetch_add(1, std::memory_order_relaxed) + 1; }

std::uint32_t correlation_of_thread() noexcept {
  return call_of_thread != nullptr ? call_of_thread->correlation() : next_correlation();
}

// Calls in their order, and of each the profiler's numbers, itself, its work: the Kineto of
// PyTorch 2.8 knows the operator of a piece of work only if it has met the number before.
bool before(const Activity& one, const Activity& other) noexcept {
  const auto place = [](const Activity& activity) {
    const bool is_call = activity.kind == Kind::Runtime || activity.kind == Kind::Driver;
    return std::pair(activity.correlation, activity.kind == Kind::External ? 0 : is_call ? 1 : 2);
  };
  return place(one) < place(other);
}

bool is_work_under_way() {
  const std::lock_guard lock(mutex);
  return !work_under_way.empty();
}

// Takes one answer of the server. False: it was the last.
bool ask_for_times() {
  Record question{};
  question.id = static_cast<std::uint32_t>(WaitKind::Activities);
  Reply reply;
  wait(question, reply);
  const std::lock_guard lock(mutex);
  for (std::size_t at = 0; at + sizeof(ActivityTimes) <= reply.payload_bytes; at += sizeof(ActivityTimes)) {
    ActivityTimes times;
    std::memcpy(&times, reply.payload + at, sizeof times);
    const auto found = work_under_way.find(times.activity);
    if (found == work_under_way.end()) continue;
    found->second.start_ns = times.start_ns;
    found->second.end_ns = times.end_ns;
    ended.push_back(std::move(found->second));
    work_under_way.erase(found);
  }
  return reply.value != 0;
}

}  // namespace

Nanoseconds now_ns() noexcept { return observe_virtual_ns(); }

void gather(Kind kind, bool on) noexcept {
  if (on) detail::gathered.fetch_or(static_cast<std::uint32_t>(kind));
  else detail::gathered.fetch_and(~static_cast<std::uint32_t>(kind));
}

void push_external(std::uint32_t kind, std::uint64_t number) noexcept {
  if (kind < kExternalKinds) external_numbers()[kind].push_back(number);
}

bool pop_external(std::uint32_t kind, std::uint64_t& number) noexcept {
  if (kind >= kExternalKinds || external_numbers()[kind].empty()) return false;
  number = external_numbers()[kind].back();
  external_numbers()[kind].pop_back();
  return true;
}

void HostCall::begin(std::string_view library, const char* name) noexcept {
  kind_ = library == "cudart" ? Kind::Runtime : library == "cuda" ? Kind::Driver : Kind{};
  name_ = name;
  correlation_ = next_correlation();
  start_ns_ = now_ns();
  call_of_thread = this;
}

void HostCall::end() noexcept {
  call_of_thread = nullptr;
  if (!is_of_library()) add_call(kind_, name_, correlation_, start_ns_, now_ns());
}

std::uint32_t HostCall::add_launch() noexcept {
  const std::uint32_t correlation = next_correlation();
  const Nanoseconds end_ns = now_ns();
  add_call(Kind::Runtime, kLibraryLaunch, correlation, start_ns_, end_ns);
  start_ns_ = end_ns;
  return correlation;
}

void Waiting::end() noexcept {
  add({.kind = Kind::Wait,
       .device = stream_.device,
       .stream = stream_.id,
       .correlation = correlation_of_thread(),
       .detail = static_cast<std::uint32_t>(type_),
       .amount = event_,
       .start_ns = start_ns_,
       .end_ns = now_ns()});
}

void note_event(StreamRef stream, std::uint64_t instance) noexcept {
  if (!gathers(Kind::EventRecord)) return;
  add({.kind = Kind::EventRecord,
       .device = stream.device,
       .stream = stream.id,
       .correlation = correlation_of_thread(),
       .amount = instance,
       .start_ns = now_ns()});
}

void collect(const std::function<void(const Activity&)>& take) {
  for (bool more = is_work_under_way(); more;) more = ask_for_times();
  std::vector<Activity> taken;
  {
    const std::lock_guard lock(mutex);
    taken.swap(ended);
  }
  std::stable_sort(taken.begin(), taken.end(), before);
  for (const Activity& one : taken) take(one);
}

}  // namespace ph::profiling

namespace ph {

void note_work(std::span<Record> records) noexcept {
  using namespace profiling;
  if (!gathers_any() || !is_work(records.front().kind)) return;
  Activity work = work_of(records);
  HostCall* call = call_of_thread;
  work.correlation = call != nullptr && call->is_of_library() ? call->add_launch() : correlation_of_thread();
  if (!gathers(work.kind)) return;
  const std::lock_guard lock(mutex);
  records.front().arg[kNumberAt] = ++numbers;
  work_under_way.emplace(numbers, std::move(work));
}

}  // namespace ph
