#include "shim/host_time/host_time.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/own_code.h"
#include "shim/host_time/gap_recorder.h"
#include "shim/host_time/gap_replay.h"
#include "shim/host_time/samples.h"
#include "shim/host_time/turns.h"
#include "shim/host_time/work.h"

namespace ph {

namespace {

thread_local int depth = 0;
thread_local const char* call_name = nullptr;
thread_local Nanoseconds cpu_at_last_exit_ns = 0;
thread_local Nanoseconds unattributed_ns = 0;  // measured, and not yet counted for a key

// The raw system call: the libc function is ours and answers in virtual time for most clocks.
Nanoseconds thread_cpu_ns() noexcept {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// What two readings in a row are apart: our share of every gap.
Nanoseconds reading_cost_ns() noexcept {
  static const Nanoseconds cost_ns = [] {
    Nanoseconds least_ns = kNever;
    for (int i = 0; i < 200; ++i) {
      const Nanoseconds before_ns = thread_cpu_ns();
      least_ns = std::min(least_ns, thread_cpu_ns() - before_ns);
    }
    return least_ns;
  }();
  return cost_ns;
}

void charge_computed() noexcept {
  if (cpu_at_last_exit_ns == 0) return;  // the thread's first call: what it did before is not the rank's time
  const Nanoseconds passed_ns = thread_cpu_ns() - cpu_at_last_exit_ns;
  const Nanoseconds spent_ns = std::max<Nanoseconds>(passed_ns - reading_cost_ns(), 0);
  unattributed_ns += spent_ns;
  if (config().samples) sample_work(spent_ns);
  const auto charged_ns = static_cast<Nanoseconds>(static_cast<double>(spent_ns) * config().cpu_factor);
  // At least one, so that of two clock reads the later is later.
  advance_host_clock(std::max<Nanoseconds>(charged_ns, 1));
}

// What the thread has done since it left our code.
void charge_done() noexcept {
  if (config().host_time == HostTime::Measured) charge_computed();
  else if (config().host_time == HostTime::Counted) settle_work();
}

void begin_to_do() noexcept {
  const Config& c = config();
  if (c.host_time == HostTime::Counted || c.samples) forget_work();
  if (c.host_time == HostTime::Measured) cpu_at_last_exit_ns = thread_cpu_ns();
}

Nanoseconds take_unattributed() noexcept { return std::exchange(unattributed_ns, 0); }

bool has_key(HostCost cost) noexcept { return cost != HostCost::None && cost != HostCost::Light; }

}  // namespace

bool enter_own_code() noexcept {
  if (depth++ > 0) return false;
  if (is_driver()) charge_done();
  ++thread_work.left_out;
  return true;
}

void leave_own_code() noexcept {
  if (--depth != 0) return;
  call_name = nullptr;
  --thread_work.left_out;
  if (is_driver()) begin_to_do();
}

void name_call(const char* name) noexcept { call_name = name; }
const char* const* current_call() noexcept { return &call_name; }

void charge_call(const ApiTable& table, std::size_t row, HostCost cost) noexcept {
  if (cost == HostCost::None) return;
  const auto kind = static_cast<std::size_t>(cost);
  const Config& c = config();
  if (c.host_time == HostTime::Fixed) return advance_host_clock(c.cost_ns[kind]);
  if (c.host_time == HostTime::Off || !has_key(cost)) return;

  // The vendor's code for the call is ours here and takes no time that could be measured.
  advance_host_clock(c.driver_ns[kind]);
  if (cost == HostCost::Launch) return;  // charge_launch knows which
  if (c.samples) sample_call(cost);
  if (c.host_time == HostTime::Counted) {
    advance_host_clock(take_counted_ns(cost));
  } else if (cost == HostCost::Library) {
    return;  // what was measured before it goes to its launches
  } else if (c.host_time == HostTime::Measured) {
    record_gap(table, row, take_unattributed());
  } else {
    advance_host_clock(replayed_gap_ns(table, row, cost));
  }
}

void charge_launch(std::uint32_t signature) noexcept {
  if (is_driver()) watch_turns();
  const HostTime model = config().host_time;
  if (model == HostTime::Fixed || model == HostTime::Off || !is_driver()) return;
  if (model == HostTime::Measured) {
    if (config().samples) sample_call(HostCost::Launch);
    record_gap(signature, take_unattributed());
  } else if (model == HostTime::Counted) {
    advance_host_clock(take_counted_ns(HostCost::Launch));
  } else {
    advance_host_clock(replayed_gap_ns(signature));
  }
}

void charge_further_kernels(std::int64_t kernels) noexcept {
  const Config& c = config();
  if (c.host_time == HostTime::Fixed || c.host_time == HostTime::Off || !is_driver()) return;
  advance_host_clock(kernels * c.driver_ns[static_cast<std::size_t>(HostCost::Library)]);
}

void name_signature(std::uint32_t signature, std::string_view json) {
  if (!attached()) return;
  if (config().host_time == HostTime::Measured) name_recorded(signature, json);
  if (config().host_time == HostTime::Recorded) name_replayed(signature, json);
}

void end_host_iteration() noexcept {
  if (!attached()) return;
  if (config().host_time == HostTime::Measured) end_recorded_iteration();
  if (config().host_time == HostTime::Counted) end_counted_iteration();
}

void end_host_sample() noexcept {
  if (!attached() || !config().samples) return;
  const OwnCode own;  // what has been done until now belongs to it
  emit_sample();
}

void emit_host_time() {
  if (config().host_time == HostTime::Measured) emit_recorded_gaps();
  if (config().host_time == HostTime::Recorded) emit_replayed_counts();
  if (config().host_time == HostTime::Counted) emit_counted_work();
}

}  // namespace ph
