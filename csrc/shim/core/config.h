// What the launcher tells the shim: `<PHANTORA_RUN_DIR>/shim.conf`, lines of `key = value`, read once.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"
#include "shim/core/work_kinds.h"

namespace ph {

// docs/decisions/unsupported-calls.md
enum class Unsupported : std::uint8_t { Stop, Error, Warn };

// docs/decisions/host-time.md
enum class HostTime : std::uint8_t { Fixed, Measured, Recorded, Counted, Off };

// Keys not listed as struct fields are reached by `number` and `text`; a missing key is our own error and
// aborts with its name.
struct PH_EXPORT Config {
  std::string run_dir;
  std::uint32_t ranks;            // "ranks"
  std::uint32_t device_count;     // "gpu.count": GPUs per simulated node
  HostTime host_time;             // "host_time": fixed | measured | recorded | counted | off
  bool samples;                   // "host_samples": with `measured`, what is timed is counted too
  Unsupported unsupported;        // "unsupported": stop | error | warn
  double cpu_factor;              // "host.cpu_factor": simulated host's time per measured CPU time
  Nanoseconds cost_ns[static_cast<int>(HostCost::kCount)];  // "host.light_ns", "host.launch_ns", ...
  // Likewise what of it the vendor's own code takes, where the program's is measured: "host.driver_light_ns", ...
  Nanoseconds driver_ns[static_cast<int>(HostCost::kCount)];
  // With `counted`, in picoseconds: of each work that is counted (core/work_kinds.h), "cpu.frame_ps",
  // ..., and of what the program does around an intercepted call itself: "cpu.call_launch_ps", ...
  std::uint64_t work_ps[kWorks];
  std::uint64_t call_ps[kHostCosts];
  Nanoseconds clock_read_ns;      // "host.clock_read_ns": a clock read advances virtual time this much
  Nanoseconds query_ns;           // "host.query_ns": a query answered "not ready" advances it this much
  std::uint64_t value_bytes;      // "values.threshold_bytes": copies and collectives up to this are real
  Nanoseconds epoch_realtime_ns;  // "epoch.realtime_ns": CLOCK_REALTIME at virtual time 0
  Nanoseconds epoch_monotonic_ns; // "epoch.monotonic_ns"

  std::int64_t number(const char* key) const;       // e.g. "gpu.multiProcessorCount", "torch.list_kib"
  const std::string& text(const char* key) const;   // e.g. "gpu.name"
  bool has(const char* key) const;
};

PH_EXPORT const Config& config() noexcept;

// What is different for one rank of a mixed cluster, `rank-<rank>.conf` beside shim.conf, if there is such a file:
// when the process becomes the rank, before anything else asks.
void read_rank_settings(const std::string& directory, std::uint32_t rank) noexcept;

// Virtual time 0 comes so much later than the run's start.
void move_epoch(Nanoseconds by_ns) noexcept;

}  // namespace ph
