#include "shim/core/properties.h"

#include <cstdio>
#include <string>

#include "shim/core/config.h"
#include "shim/core/visible_devices.h"

namespace ph {

namespace {
constexpr int kPciBusIdAttribute = 33;  // cudaDevAttrPciBusId
}

int device_pci_bus(int gpu) noexcept { return static_cast<int>(config().number("gpu.pciBusID_base")) + gpu; }

bool device_attribute(int device, int attribute, int& value) noexcept {
  if (attribute == kPciBusIdAttribute) {
    value = device_pci_bus(node_gpu(device));
    return true;
  }
  const std::string key = "gpu.attribute." + std::to_string(attribute);
  if (!config().has(key.c_str())) return false;
  value = static_cast<int>(config().number(key.c_str()));
  return true;
}

void device_uuid(int gpu, unsigned char* uuid) noexcept {
  // SplitMix64 of seed and ordinal: the same in every process of a node, different per GPU.
  auto state = static_cast<std::uint64_t>(config().number("gpu.uuid_seed")) + static_cast<std::uint64_t>(gpu);
  for (int half = 0; half < 2; ++half) {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    for (int byte = 0; byte < 8; ++byte) uuid[half * 8 + byte] = static_cast<unsigned char>(mixed >> (byte * 8));
  }
}

std::string device_uuid_text(int gpu) {
  unsigned char uuid[16];
  device_uuid(gpu, uuid);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

}  // namespace ph
