#include "shim/core/config.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>

#include "shim/core/addresses.h"
#include "shim/core/failure.h"
#include "shim/core/run_environment.h"

namespace ph {

namespace {

using Settings = std::map<std::string, std::string, std::less<>>;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Settings read_settings(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail_internal("cannot read " + path + "; PHANTORA_RUN_DIR is set but is not a run directory");
  Settings settings;
  for (std::string line; std::getline(file, line);) {
    const auto equals = line.find('=');
    if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
    settings[trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
  }
  return settings;
}

Settings& settings() {
  // Never destroyed: threads still ask while the process ends.
  static Settings& loaded = *new Settings([] {
    const char* run_dir = run_variable(RunVariable::RunDir);
    if (run_dir == nullptr) fail_usage("PHANTORA_RUN_DIR is not set; start the program with `phantora run`");
    return read_settings(std::string(run_dir) + "/shim.conf");
  }());
  return loaded;
}

const std::string& required(const char* key) {
  const auto entry = settings().find(key);
  if (entry == settings().end()) fail_internal(std::string("shim.conf lacks the key ") + key);
  return entry->second;
}

HostTime host_time(const std::string& name) {
  if (name == "fixed") return HostTime::Fixed;
  if (name == "measured") return HostTime::Measured;
  if (name == "recorded") return HostTime::Recorded;
  if (name == "counted") return HostTime::Counted;
  if (name == "off") return HostTime::Off;
  fail_internal("shim.conf: unknown host_time " + name);
}

Unsupported unsupported(const std::string& name) {
  if (name == "stop") return Unsupported::Stop;
  if (name == "error") return Unsupported::Error;
  if (name == "warn") return Unsupported::Warn;
  fail_internal("shim.conf: unknown answer to unsupported calls " + name);
}

Config read_config() {
  Config c{};
  const auto unsigned_number = [&c](const char* key) { return static_cast<std::uint64_t>(c.number(key)); };
  c.run_dir = run_variable(RunVariable::RunDir) != nullptr ? run_variable(RunVariable::RunDir) : "";
  c.ranks = static_cast<std::uint32_t>(unsigned_number("ranks"));
  c.device_count = static_cast<std::uint32_t>(unsigned_number("gpu.count"));
  if (c.device_count > kMaxDevices)
    fail_usage("a node has more than " + std::to_string(kMaxDevices) + " GPUs, more than ranks have addresses for");
  if (unsigned_number("gpu.totalGlobalMem") > kDeviceSpanBytes)
    fail_usage("a GPU has more than " + std::to_string(kDeviceSpanBytes >> 30) +
               " GiB of memory, more than ranks have addresses for");
  c.host_time = host_time(c.text("host_time"));
  c.samples = c.has("host_samples");
  c.unsupported = unsupported(c.text("unsupported"));
  c.cpu_factor = std::strtod(c.text("host.cpu_factor").c_str(), nullptr);
  for (std::size_t i = 0; i < kHostCosts; ++i) {
    c.cost_ns[i] = c.number((std::string("host.") + kHostCostNames[i] + "_ns").c_str());
    c.driver_ns[i] = c.number((std::string("host.driver_") + kHostCostNames[i] + "_ns").c_str());
  }
  if (c.host_time == HostTime::Counted) {
    for (std::size_t i = 0; i < kWorks; ++i)
      c.work_ps[i] = unsigned_number((std::string("cpu.") + kWorkNames[i] + "_ps").c_str());
    for (std::size_t i = 0; i < kHostCosts; ++i)
      c.call_ps[i] = unsigned_number((std::string("cpu.call_") + kHostCostNames[i] + "_ps").c_str());
  }
  c.clock_read_ns = c.number("host.clock_read_ns");
  c.query_ns = c.number("host.query_ns");
  c.value_bytes = unsigned_number("values.threshold_bytes");
  c.epoch_realtime_ns = c.number("epoch.realtime_ns");
  c.epoch_monotonic_ns = c.number("epoch.monotonic_ns");
  return c;
}

Config& loaded_config() {
  static Config& loaded = *new Config(read_config());
  return loaded;
}

}  // namespace

std::int64_t Config::number(const char* key) const {
  const std::string& value = required(key);
  std::int64_t result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc{} || end != value.data() + value.size()) {
    fail_internal(std::string("shim.conf: ") + key + " is not an integer: " + value);
  }
  return result;
}

const std::string& Config::text(const char* key) const { return required(key); }

bool Config::has(const char* key) const { return settings().contains(key); }

const Config& config() noexcept { return loaded_config(); }

void read_rank_settings(const std::string& directory, std::uint32_t rank) noexcept {
  const std::string path = directory + "/rank-" + std::to_string(rank) + ".conf";
  if (access(path.c_str(), F_OK) != 0) return;
  for (auto& [key, value] : read_settings(path)) settings()[key] = value;
  loaded_config() = read_config();
}

void move_epoch(Nanoseconds by_ns) noexcept {
  Config& loaded = loaded_config();
  loaded.epoch_realtime_ns = loaded.number("epoch.realtime_ns") + by_ns;
  loaded.epoch_monotonic_ns = loaded.number("epoch.monotonic_ns") + by_ns;
}

}  // namespace ph
