#include "shim/host_time/gap_replay.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/failure.h"
#include "shim/core/json.h"

namespace ph {

namespace {

enum class Source : std::uint8_t { Signature, Family, Call, Fixed, kCount };

struct Charge {
  Nanoseconds gap_ns = 0;
  Source source = Source::Fixed;
  std::atomic<std::uint64_t> calls{0};

  Nanoseconds take() noexcept {
    calls.fetch_add(1, std::memory_order_relaxed);
    return gap_ns;
  }
};

using Gaps = std::unordered_map<std::string, Nanoseconds>;

// In the simulated host's time.
const Gaps& recorded_gaps() {
  static const Gaps& loaded = *new Gaps([] {
    const std::string path = config().run_dir + "/host-gaps";
    std::ifstream file(path);
    if (!file) fail_internal("cannot read " + path + ", which `--host-time recorded` needs");
    Gaps gaps;
    for (std::string line; std::getline(file, line);) {
      Nanoseconds gap_ns = 0;
      const char* const end = line.data() + line.size();
      const auto [number_end, error] = std::from_chars(line.data(), end, gap_ns);
      if (error != std::errc{} || gap_ns < 0 || number_end == end || *number_end != ' ')
        fail_internal(path + ": " + line);
      gaps[std::string(number_end + 1, end)] =
          static_cast<Nanoseconds>(static_cast<double>(gap_ns) * config().cpu_factor);
    }
    return gaps;
  }());
  return loaded;
}

// A key that is not there costs what the call does in `fixed`, less the driver's part, which is charged anyway.
Nanoseconds fixed_gap_ns(HostCost cost) noexcept {
  const auto kind = static_cast<std::size_t>(cost);
  const Config& c = config();
  return std::max<Nanoseconds>(c.cost_ns[kind] - c.driver_ns[kind], 0);
}

std::string_view family_of(std::string_view json) noexcept {
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') quoted = !quoted;
    if (!quoted && json[i] >= '0' && json[i] <= '9') return json.substr(0, i);
  }
  return json;
}

// Charges by signature, in blocks that never move, so that a launch reads them without a lock.
constexpr std::size_t kBlock = 1024;
using Block = std::array<Charge, kBlock>;
std::array<std::atomic<Block*>, 4096> blocks;

Charge* charge_of(std::uint32_t signature) noexcept {
  if (signature / kBlock >= blocks.size()) return nullptr;
  Block* block = blocks[signature / kBlock].load(std::memory_order_acquire);
  return block == nullptr ? nullptr : &(*block)[signature % kBlock];
}

// Charges of the other calls, by symbol.
struct Library {
  const ApiTable* table;
  std::unique_ptr<Charge[]> rows;
};

struct Calls {
  std::array<Library, 32> libraries;
  std::size_t count = 0;
};

Calls& calls() {
  static Calls& made = *new Calls([] {
    Calls all;
    for (const ApiTable* table = first_registered_table(); table != nullptr; table = table->next) {
      Library& library = all.libraries.at(all.count++);
      library = {table, std::make_unique<Charge[]>(table->size)};
      for (std::size_t row = 0; row < table->size; ++row) {
        const auto found = recorded_gaps().find(std::string(table->library) + " " + table->rows[row].name);
        if (found == recorded_gaps().end()) continue;
        library.rows[row].gap_ns = found->second;
        library.rows[row].source = Source::Call;
      }
    }
    return all;
  }());
  return made;
}

std::atomic<std::uint64_t> fixed_calls{0};
std::atomic<Nanoseconds> fixed_ns{0};

Nanoseconds charge_fixed(HostCost cost) noexcept {
  const Nanoseconds gap_ns = fixed_gap_ns(cost);
  fixed_calls.fetch_add(1, std::memory_order_relaxed);
  fixed_ns.fetch_add(gap_ns, std::memory_order_relaxed);
  return gap_ns;
}

struct Total {
  std::uint64_t calls = 0;
  Nanoseconds gap_ns = 0;

  void add(const Charge& charge) noexcept {
    const std::uint64_t count = charge.calls.load(std::memory_order_relaxed);
    calls += count;
    gap_ns += static_cast<Nanoseconds>(count) * charge.gap_ns;
  }
};

}  // namespace

Nanoseconds replayed_gap_ns(std::uint32_t signature) noexcept {
  Charge* charge = charge_of(signature);
  return charge != nullptr ? charge->take() : charge_fixed(HostCost::Launch);
}

Nanoseconds replayed_gap_ns(const ApiTable& table, std::size_t row, HostCost cost) noexcept {
  Calls& all = calls();
  for (std::size_t i = 0; i < all.count; ++i) {
    if (all.libraries[i].table != &table) continue;
    Charge& charge = all.libraries[i].rows[row];
    return charge.source == Source::Call ? charge.take() : charge_fixed(cost);
  }
  return charge_fixed(cost);
}

// Under the lock of the signatures' table: one thread at a time.
void name_replayed(std::uint32_t signature, std::string_view json) {
  if (signature / kBlock >= blocks.size()) return;
  std::atomic<Block*>& block = blocks[signature / kBlock];
  if (block.load(std::memory_order_relaxed) == nullptr) block.store(new Block, std::memory_order_release);
  Charge& charge = *charge_of(signature);
  charge.gap_ns = fixed_gap_ns(HostCost::Launch);
  const Gaps& gaps = recorded_gaps();
  if (const auto exact = gaps.find(std::string(json)); exact != gaps.end()) {
    charge.gap_ns = exact->second;
    charge.source = Source::Signature;
  } else if (const auto family = gaps.find(std::string(family_of(json))); family != gaps.end()) {
    charge.gap_ns = family->second;
    charge.source = Source::Family;
  }
}

void emit_replayed_counts() {
  std::array<Total, static_cast<std::size_t>(Source::kCount)> totals;
  const auto add = [&](const Charge& charge) { totals[static_cast<std::size_t>(charge.source)].add(charge); };
  for (const auto& block : blocks) {
    if (const Block* charges = block.load(std::memory_order_acquire)) {
      for (const Charge& charge : *charges) add(charge);
    }
  }
  for (std::size_t i = 0; i < calls().count; ++i) {
    const Library& library = calls().libraries[i];
    for (std::size_t row = 0; row < library.table->size; ++row) add(library.rows[row]);
  }
  Total& fixed = totals[static_cast<std::size_t>(Source::Fixed)];
  fixed.calls += fixed_calls.load(std::memory_order_relaxed);
  fixed.gap_ns += fixed_ns.load(std::memory_order_relaxed);

  const auto told = [&totals](Source source) {
    const Total& total = totals[static_cast<std::size_t>(source)];
    return std::tuple(static_cast<std::int64_t>(total.calls), std::int64_t{total.gap_ns});
  };
  emit_statistics(payload_text(payloads::ReplayedGaps{
      .signature = told(Source::Signature),
      .family = told(Source::Family),
      .call = told(Source::Call),
      .fixed = told(Source::Fixed),
  }));
}

}  // namespace ph
