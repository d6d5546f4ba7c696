#include "shim/core/visible_devices.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "shim/core/config.h"
#include "shim/core/properties.h"

namespace ph {

namespace {

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// By number, or by the first letters of one GPU's UUID. -1: there is none.
int find_gpu(std::string_view name, int count) {
  if (!name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos) {
    const int gpu = name.size() < 5 ? std::stoi(std::string(name)) : count;
    return gpu < count ? gpu : -1;
  }
  constexpr std::string_view kPrefix = "GPU-";
  if (!name.starts_with(kPrefix)) return -1;
  int found = -1;
  for (int gpu = 0; gpu < count; ++gpu) {
    if (!device_uuid_text(gpu).starts_with(name)) continue;
    if (found >= 0) return -1;
    found = gpu;
  }
  return found;
}

// Whatever follows a name that means no GPU is not seen; who names one twice sees none.
// Source: CUDA C++ Programming Guide, "CUDA Environment Variables", CUDA_VISIBLE_DEVICES.
std::vector<int> read_visible(std::string_view list, int count) {
  std::vector<int> gpus;
  while (true) {
    const std::size_t comma = list.find(',');
    const int gpu = find_gpu(trimmed(list.substr(0, comma)), count);
    if (gpu < 0) return gpus;
    if (std::find(gpus.begin(), gpus.end(), gpu) != gpus.end()) return {};
    gpus.push_back(gpu);
    if (comma == std::string_view::npos) return gpus;
    list.remove_prefix(comma + 1);
  }
}

int read() {
  const auto count = static_cast<int>(config().device_count);
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) return count;
  const std::vector<int> gpus = read_visible(list, count);
  std::copy(gpus.begin(), gpus.end(), gpu_of_device.begin());
  return static_cast<int>(gpus.size());
}

constexpr auto identity() {
  std::array<std::uint16_t, kMaxDevices> gpus{};
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

}  // namespace

constinit std::array<std::uint16_t, kMaxDevices> gpu_of_device = identity();

int visible_devices() noexcept {
  static const int count = read();
  return count;
}

int device_of_gpu(int gpu) noexcept {
  const auto end = gpu_of_device.begin() + visible_devices();
  const auto found = std::find(gpu_of_device.begin(), end, gpu);
  return found == end ? -1 : static_cast<int>(found - gpu_of_device.begin());
}

}  // namespace ph
