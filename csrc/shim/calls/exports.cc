// The few C functions of the core that Python calls through ctypes: inside a rank (phantora_py/rank) and to read
// the interception tables (phantora_py/coverage).
#include <string>
#include <utility>
#include <vector>

#include "shim/calls/call.h"
#include "shim/calls/unsupported.h"
#include "shim/channel/rank.h"
#include "shim/channel/succession.h"
#include "shim/core/api.h"
#include "shim/core/config.h"
#include "shim/core/group_being_made.h"
#include "shim/core/json.h"
#include "shim/core/own_code.h"
#include "shim/core/visible_devices.h"
#include "shim/graph/capture.h"
#include "shim/host_time/host_time.h"
#include "shim/launch/launch.h"
#include "shim/libc/outside.h"
#include "shim/libc/time_stamp_counter.h"
#include "shim/python/python_frame.h"
#include "shim/values/left_unknown.h"
#include "shim/values/small_collectives.h"
#include "shim/values/values.h"

namespace {

using ph::ApiTable;

const ApiTable* table_at(std::size_t index) noexcept {
  const ApiTable* table = ph::first_registered_table();
  while (table != nullptr && index-- > 0) table = table->next;
  return table;
}

using Counts = std::vector<std::pair<std::string, std::int64_t>>;

// Of the rows of one kind that were called.
Counts counts_of(const ApiTable& table, ph::Support support) {
  Counts counts;
  for (std::size_t row = 0; row < table.size; ++row) {
    const auto count = table.counts[row].load(std::memory_order_relaxed);
    if (table.rows[row].support == support && count != 0)
      counts.emplace_back(table.rows[row].name, static_cast<std::int64_t>(count));
  }
  return counts;
}

void emit_call_counts() {
  for (const ApiTable* table = ph::first_registered_table(); table != nullptr; table = table->next) {
    ph::emit_statistics(ph::payload_text(ph::payloads::CallCounts{
        .library = table->library,
        .modelled = counts_of(*table, ph::Support::Modelled),
        .ignored = counts_of(*table, ph::Support::Ignored),
        .passthrough = counts_of(*table, ph::Support::PassThrough),
    }));
  }
}

void emit_marker(std::uint32_t kind, std::string_view name, std::uint32_t site) noexcept {
  ph::Record record{};
  record.kind = ph::RecordKind::Marker;
  record.id = kind;
  record.site = site;
  ph::emit(record, name);
}

bool ends_host_iteration(std::uint32_t kind) noexcept {
  return kind == static_cast<std::uint32_t>(ph::MarkerKind::OptimizerStep) ||
         kind == static_cast<std::uint32_t>(ph::MarkerKind::Iteration);
}

}  // namespace

extern "C" {

// phantora_py/rank/runtime.py runs in this process, or in the one that it was forked from.
PH_EXPORT void ph_note_runtime() noexcept { ph::note_runtime(); }
PH_EXPORT int ph_attach(const char* run_dir, std::uint32_t rank) noexcept { return ph::attach(run_dir, rank) ? 1 : 0; }
PH_EXPORT int ph_follow(const char* run_dir, std::uint32_t rank) noexcept { return ph::follow(run_dir, rank) ? 1 : 0; }

// Whether this process has a rank's clock, and whether it is a rank: records of any other go nowhere.
PH_EXPORT int ph_has_clock() noexcept { return ph::clock_virtual() ? 1 : 0; }
PH_EXPORT int ph_is_rank() noexcept { return ph::is_owner() ? 1 : 0; }

PH_EXPORT void ph_marker(std::uint32_t kind, const char* name) noexcept {
  const auto mark = [kind, name = std::string(name)] {
    emit_marker(kind, name, 0);
    if (ends_host_iteration(kind)) ph::end_host_iteration();
    if (kind == static_cast<std::uint32_t>(ph::MarkerKind::Iteration)) ph::end_host_sample();
  };
  // An optimizer step that is captured is one at every launch of the graph.
  if (!ph::capture_beside(mark)) mark();
}

// Named after the Python line that calls.
PH_EXPORT void ph_marker_here(std::uint32_t kind) noexcept {
  const auto mark = [kind, site = ph::current_site()] { emit_marker(kind, {}, site); };
  if (!ph::capture_beside(mark)) mark();
}

// Around what phantora_py/rank itself does in a rank.
PH_EXPORT void ph_enter() noexcept { ph::enter_own_code(); }
PH_EXPORT void ph_leave() noexcept { ph::leave_own_code(); }

// Whether a helper thread waits for an answer (phantora_py/rank/watchdogs.py).
PH_EXPORT int ph_helpers_ask() noexcept { return ph::helpers_ask() ? 1 : 0; }

// The GPU on the node that is this device of the process.
PH_EXPORT int ph_node_gpu(int device) noexcept { return ph::node_gpu(device); }

PH_EXPORT void ph_statistics(const char* json) noexcept { ph::emit_statistics(json); }

// Of grouped products (phantora_py/rank/grouped_products.py): a signature for their sizes, and that it holds from now on.
// `along`: in what the groups differ; null: nobody knows how large each of them is.
PH_EXPORT std::uint32_t ph_product_signature(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups,
                                             const char* left_type, const char* right_type, const char* along,
                                             const std::int64_t* sizes) noexcept {
  ph::payloads::GroupedGemm product{
      .m = m,
      .n = n,
      .k = k,
      .batch = groups,
      .transa = "N",
      .transb = "N",
      .a = left_type,
      .b = right_type,
      .c = "bf16",
      .d = "bf16",
      .compute = "f32",
      .epilogue = "none",
      .beta = false,
  };
  if (along != nullptr) {
    product.along = along;
    product.group_sizes.emplace(sizes, sizes + groups);
  }
  return ph::intern_signature(ph::payload_text(product));
}
PH_EXPORT void ph_state_product(std::uint32_t signature) noexcept { ph::state_product(signature); }

// Of Triton's kernels (phantora_py/rank/triton_code.py).
PH_EXPORT void ph_state_code(const char* block_bytes, const char* block_again, const char* block_instructions,
                             const char* block_flops, std::uint64_t counted_by, std::uint64_t only_read) noexcept {
  ph::state_code({block_bytes, block_again, block_instructions, block_flops, counted_by, only_read});
}

// Before PyTorch's profiler reads its clock.
PH_EXPORT void ph_make_counter_virtual() noexcept { ph::make_counter_virtual(); }

// How many ranks run, of a folded run; 0: all.
PH_EXPORT int ph_live_ranks() noexcept {
  return ph::config().has("fold.live") ? static_cast<int>(ph::config().number("fold.live")) : 0;
}

PH_EXPORT void ph_making_group(const char* ranks) noexcept { ph::set_group_being_made(ranks); }

// Where our part of a gather is that the calling thread begins now; null: it has begun.
PH_EXPORT void ph_gathering(const void* part) noexcept { ph::set_own_part(part); }

PH_EXPORT int ph_lazy_host_tensors() noexcept { return ph::config().text("host_tensors") == "lazy" ? 1 : 0; }

PH_EXPORT int ph_samples_host() noexcept { return ph::config().samples ? 1 : 0; }

PH_EXPORT void ph_exit(std::int64_t status) noexcept {
  if (!ph::attached()) return;
  if (status == 0) {  // else the run ends, and nobody may keep it
    ph::finish_values();
    // Others see the end of a process: its connections end, its locks are free.
    const ph::Act end(ph::kEveryone);
  }
  ph::tell_unknown();
  emit_call_counts();
  ph::emit_unsupported_counts();
  ph::emit_host_time();
  if (status == 0 && ph::may_be_followed()) {
    ph::leave_to_another();
    return;
  }
  ph::Record record{};
  record.kind = ph::RecordKind::Exit;
  record.arg[ph::ExitArg::Status] = static_cast<std::uint64_t>(status);
  ph::emit(record);
  ph::leave();
}

PH_EXPORT std::size_t ph_table_count() noexcept {
  std::size_t count = 0;
  while (table_at(count) != nullptr) ++count;
  return count;
}
PH_EXPORT const char* ph_table_library(std::size_t table) noexcept { return table_at(table)->library; }
PH_EXPORT const char* ph_table_soname(std::size_t table) noexcept { return table_at(table)->soname; }
PH_EXPORT std::size_t ph_table_rows(std::size_t table) noexcept { return table_at(table)->size; }
PH_EXPORT const char* ph_row_name(std::size_t table, std::size_t row) noexcept {
  return table_at(table)->rows[row].name;
}
PH_EXPORT int ph_row_support(std::size_t table, std::size_t row) noexcept {
  return static_cast<int>(table_at(table)->rows[row].support);
}
PH_EXPORT const char* ph_row_note(std::size_t table, std::size_t row) noexcept {
  return table_at(table)->rows[row].note;
}

}  // extern "C"
