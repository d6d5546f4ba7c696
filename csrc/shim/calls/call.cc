#include "shim/calls/call.h"

#include <cstdlib>

#include "shim/channel/rank.h"
#include "shim/graph/capture.h"
#include "shim/host_time/host_time.h"
#include "shim/python/whereabouts.h"

extern "C" int ph_exit_at_end() noexcept;

namespace ph {

namespace {

void attach_if_asked() noexcept {
  static const bool tried = [] {
    const char* run_dir = std::getenv("PHANTORA_RUN_DIR");
    const char* rank = std::getenv("PHANTORA_RANK");
    if (run_dir == nullptr || rank == nullptr || attached() || clock_virtual()) return false;
    const bool attached = attach(run_dir, static_cast<std::uint32_t>(std::strtoul(rank, nullptr, 10)));
    if (attached) {
      write_whereabouts();
      ph_exit_at_end();  // a program without Python has nobody else who asks for it
    }
    return attached;
  }();
  (void)tried;
}

}  // namespace

Call::Call(ApiTable& table, std::size_t row, HostCost cost) noexcept {
  table.counts[row].fetch_add(1, std::memory_order_relaxed);
  if (!own_.outermost()) return;  // a body that calls another one is charged once
  name_call(table.rows[row].name);
  begin_uncaptured_call();
  if (!attached()) attach_if_asked();
  if (profiling::gathers_any() && attached()) activity_.begin(table.library, table.rows[row].name);
  if (is_driver()) charge_call(table, row, cost);
}

void count_ignored(ApiTable& table, std::size_t row) noexcept {
  table.counts[row].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ph
