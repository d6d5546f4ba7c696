// Registered tables, the guard of modelled bodies with its host-time model, and the end at an unsupported call.
#include "shim/core/api.h"

#include <cstdlib>
#include <ctime>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/core/config.h"
#include "shim/core/json.h"
#include "shim/core/python_frame.h"
#include "shim/core/rank.h"

namespace ph {

namespace {

ApiTable* first_table = nullptr;

// Depth of modelled bodies on this thread: a body that calls another one is charged once.
thread_local int call_depth = 0;
thread_local std::uint64_t cpu_at_last_exit_ns = 0;

// The raw system call: the libc function is ours and answers in virtual time for most clocks.
std::uint64_t thread_cpu_ns() noexcept {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

void charge_measured() noexcept {
  if (cpu_at_last_exit_ns == 0) return;  // the thread's first call: what it did before is not the rank's time
  const std::uint64_t spent_ns = thread_cpu_ns() - cpu_at_last_exit_ns;
  advance_host_clock(static_cast<std::uint64_t>(static_cast<double>(spent_ns) * config().cpu_factor));
}

void attach_if_asked() noexcept {
  static const bool tried = [] {
    const char* run_dir = std::getenv("PHANTORA_RUN_DIR");
    const char* rank = std::getenv("PHANTORA_RANK");
    if (run_dir == nullptr || rank == nullptr || attached() || clock_virtual()) return false;
    return attach(run_dir, static_cast<std::uint32_t>(std::strtoul(rank, nullptr, 10)));
  }();
  (void)tried;
}

}  // namespace

void register_table(ApiTable* table) noexcept {
  table->next = first_table;
  first_table = table;
}

const ApiTable* first_registered_table() noexcept { return first_table; }

Call::Call(ApiTable& table, std::size_t row, HostCost cost) noexcept {
  table.counts[row].fetch_add(1, std::memory_order_relaxed);
  if (call_depth++ > 0) return;
  if (!attached()) attach_if_asked();
  if (!is_driver() || cost == HostCost::None) return;
  switch (config().host_time) {
    case HostTime::Fixed: advance_host_clock(config().cost_ns[static_cast<int>(cost)]); break;
    case HostTime::Measured: charge_measured(); break;
    case HostTime::Off: break;
  }
}

Call::~Call() noexcept {
  if (--call_depth > 0 || !is_driver()) return;
  if (config().host_time == HostTime::Measured) cpu_at_last_exit_ns = thread_cpu_ns();
}

void count_ignored(ApiTable& table, std::size_t row) noexcept {
  table.counts[row].fetch_add(1, std::memory_order_relaxed);
}

void stop_unsupported(const char* library, const char* symbol, const char* detail) noexcept {
  if (attached()) {
    Record record{};
    record.kind = RecordKind::Unsupported;
    record.site = current_site();
    emit(record, "{\"library\": " + json_string(library) + ", \"symbol\": " + json_string(symbol) +
                     ", \"detail\": " + json_string(detail) + "}");
    // Nothing is lost: the agent drains the ring after the rank has ended.
    _exit(3);
  }
  std::string message = std::string("phantora: ") + library + ": " + symbol + " is not supported";
  if (*detail != '\0') message += std::string(" (") + detail + ")";
  message += "\n";
  _exit(write(STDERR_FILENO, message.data(), message.size()) < 0 ? 71 : 3);
}

}  // namespace ph
