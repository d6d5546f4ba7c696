// Which processors and memory nodes are near a GPU: all those of this machine, for every GPU. A simulated node has no
// sockets, and the program can be bound only to processors that exist here.
#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "shim/nvml/nvml.h"

using namespace ph;
using namespace ph::nvml;

namespace {

constexpr unsigned kWordBits = sizeof(unsigned long) * CHAR_BIT;

struct Range {
  unsigned first, last;
};

// What the kernel lists in a file of /sys as "0-3,8-11"; empty where there is no such file.
std::vector<Range> listed(const char* path) {
  std::vector<Range> ranges;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "re"), std::fclose);
  Range range{};
  while (file && std::fscanf(file.get(), "%u", &range.first) == 1) {
    if (std::fscanf(file.get(), "-%u", &range.last) != 1) range.last = range.first;
    ranges.push_back(range);
    if (std::fgetc(file.get()) != ',') break;
  }
  return ranges;
}

std::vector<Range> processors() {
  std::vector<Range> online = listed("/sys/devices/system/cpu/online");
  if (online.empty()) online.push_back({0, static_cast<unsigned>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L) - 1)});
  return online;
}

// A machine without this file has one memory node.
std::vector<Range> memory_nodes() {
  std::vector<Range> online = listed("/sys/devices/system/node/online");
  if (online.empty()) online.push_back({0, 0});
  return online;
}

// A bit for every number in the ranges. A set that does not hold them all would be a wrong answer.
nvmlReturn_t write_set(std::span<const Range> ranges, std::span<unsigned long> words) noexcept {
  for (const Range& range : ranges) {
    if (range.last / kWordBits >= words.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  std::fill(words.begin(), words.end(), 0);
  for (const Range& range : ranges) {
    for (unsigned i = range.first; i <= range.last; ++i) words[i / kWordBits] |= 1ul << i % kWordBits;
  }
  return NVML_SUCCESS;
}

bool is_scope(nvmlAffinityScope_t scope) noexcept {
  return scope == NVML_AFFINITY_SCOPE_NODE || scope == NVML_AFFINITY_SCOPE_SOCKET;
}

nvmlReturn_t write_processors(nvmlDevice_t handle, unsigned size, unsigned long* words) noexcept {
  PH_NVML_DEVICE(device, handle);
  if (size == 0 || !words) return NVML_ERROR_INVALID_ARGUMENT;
  return write_set(processors(), {words, size});
}

// Of the calling thread, to every processor that is near the GPU, or to every one that there is: the same here.
nvmlReturn_t unbind_thread(nvmlDevice_t handle) noexcept {
  PH_NVML_DEVICE(device, handle);
  unsigned long words[CPU_SETSIZE / kWordBits];
  const nvmlReturn_t result = write_set(processors(), words);
  if (result != NVML_SUCCESS) return result;
  const bool done = sched_setaffinity(0, sizeof words, reinterpret_cast<const cpu_set_t*>(words)) == 0;
  return done ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

}  // namespace

extern "C" {

PH_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long* words) noexcept {
  PH_CALL(nvmlDeviceGetCpuAffinity);
  return write_processors(device, size, words);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned size, unsigned long* words,
                                                           nvmlAffinityScope_t scope) noexcept {
  PH_CALL(nvmlDeviceGetCpuAffinityWithinScope);
  return is_scope(scope) ? write_processors(device, size, words) : NVML_ERROR_INVALID_ARGUMENT;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t handle, unsigned size, unsigned long* words,
                                                   nvmlAffinityScope_t scope) noexcept {
  PH_CALL(nvmlDeviceGetMemoryAffinity);
  PH_NVML_DEVICE(device, handle);
  if (size == 0 || !words || !is_scope(scope)) return NVML_ERROR_INVALID_ARGUMENT;
  return write_set(memory_nodes(), {words, size});
}

PH_EXPORT nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device) noexcept {
  PH_CALL(nvmlDeviceSetCpuAffinity);
  return unbind_thread(device);
}

PH_EXPORT nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device) noexcept {
  PH_CALL(nvmlDeviceClearCpuAffinity);
  return unbind_thread(device);
}

}  // extern "C"
