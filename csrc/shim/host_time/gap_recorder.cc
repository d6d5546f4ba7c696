#include "shim/host_time/gap_recorder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shim/channel/rank.h"
#include "shim/core/json.h"

namespace ph {

namespace {

// Enough for a median; of more iterations the last ones count.
constexpr std::size_t kMostIterations = 64;
constexpr std::size_t kKeysPerRecord = 256;

struct Sum {
  std::uint64_t calls = 0;
  Nanoseconds gap_ns = 0;

  Nanoseconds mean_ns() const noexcept { return gap_ns / static_cast<Nanoseconds>(std::max<std::uint64_t>(calls, 1)); }
};

class Gap {
 public:
  void add(Nanoseconds gap_ns) noexcept {
    ++calls_;
    ++current_.calls;
    current_.gap_ns += gap_ns;
  }

  void end_iteration(bool is_first) {
    if (current_.calls == 0) return;
    const Sum ended = std::exchange(current_, {});
    if (is_first) {
      outside_ = ended;
    } else if (iterations_.size() < kMostIterations) {
      iterations_.push_back(ended);
    } else {
      iterations_[next_++ % kMostIterations] = ended;
    }
  }

  std::uint64_t calls() const noexcept { return calls_; }

  Nanoseconds typical_ns() const {
    if (iterations_.empty()) return Sum{outside_.calls + current_.calls, outside_.gap_ns + current_.gap_ns}.mean_ns();
    std::vector<Sum> sorted = iterations_;
    std::sort(sorted.begin(), sorted.end(), [](const Sum& a, const Sum& b) { return a.mean_ns() < b.mean_ns(); });
    std::uint64_t calls = 0;
    for (const Sum& one : sorted) calls += one.calls;
    std::uint64_t before = 0;
    for (const Sum& one : sorted) {
      before += one.calls;
      if (2 * before >= calls) return one.mean_ns();
    }
    return 0;
  }

 private:
  std::uint64_t calls_ = 0;
  Sum current_;
  Sum outside_;
  std::vector<Sum> iterations_;
  std::size_t next_ = 0;
};

struct Launches {
  std::string key;
  Gap gap;
};

// Never destroyed: the program may still call while static destructors run.
struct Recorder {
  std::mutex mutex;
  std::vector<Launches> launches;  // by signature
  std::map<std::pair<const ApiTable*, std::size_t>, Gap> calls;
  bool first_iteration = true;
};

Recorder& recorder() {
  static Recorder& recorder = *new Recorder;
  return recorder;
}

Launches& launches_of(Recorder& all, std::uint32_t signature) {
  if (signature >= all.launches.size()) all.launches.resize(signature + 1);
  return all.launches[signature];
}

class Statistics {
 public:
  void add(const std::string& key, const Gap& gap) {
    if (gap.calls() == 0) return;
    told_.gaps.emplace_back(key, gap.calls(), gap.typical_ns());
    if (told_.gaps.size() == kKeysPerRecord) flush();
  }

  void flush() {
    if (!told_.gaps.empty()) emit_statistics(payload_text(std::exchange(told_, {})));
  }

 private:
  payloads::HostGaps told_;
};

}  // namespace

void record_gap(std::uint32_t signature, Nanoseconds gap_ns) noexcept {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  launches_of(all, signature).gap.add(gap_ns);
}

void record_gap(const ApiTable& table, std::size_t row, Nanoseconds gap_ns) noexcept {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  all.calls[{&table, row}].add(gap_ns);
}

void name_recorded(std::uint32_t signature, std::string_view json) {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  launches_of(all, signature).key = json;
}

void end_recorded_iteration() noexcept {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  for (Launches& one : all.launches) one.gap.end_iteration(all.first_iteration);
  for (auto& [call, gap] : all.calls) gap.end_iteration(all.first_iteration);
  all.first_iteration = false;
}

void emit_recorded_gaps() {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  Statistics statistics;
  for (const Launches& one : all.launches) statistics.add(one.key, one.gap);
  for (const auto& [call, gap] : all.calls) {
    statistics.add(std::string(call.first->library) + " " + call.first->rows[call.second].name, gap);
  }
  statistics.flush();
}

}  // namespace ph
