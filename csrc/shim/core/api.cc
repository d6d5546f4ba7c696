// Registered tables and the guard of modelled bodies.
#include "shim/core/api.h"

#include <cstdlib>

#include "shim/core/capture.h"
#include "shim/core/host_time.h"
#include "shim/core/rank.h"
#include "shim/core/whereabouts.h"

namespace ph {

namespace {

ApiTable* first_table = nullptr;

void attach_if_asked() noexcept {
  static const bool tried = [] {
    const char* run_dir = std::getenv("PHANTORA_RUN_DIR");
    const char* rank = std::getenv("PHANTORA_RANK");
    if (run_dir == nullptr || rank == nullptr || attached() || clock_virtual()) return false;
    const bool attached = attach(run_dir, static_cast<std::uint32_t>(std::strtoul(rank, nullptr, 10)));
    if (attached) write_whereabouts();
    return attached;
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
  if (!own_.outermost()) return;  // a body that calls another one is charged once
  name_call(table.rows[row].name);
  begin_uncaptured_call();
  if (!attached()) attach_if_asked();
  if (is_driver()) charge_call(table, row, cost);
}

void count_ignored(ApiTable& table, std::size_t row) noexcept {
  table.counts[row].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ph
