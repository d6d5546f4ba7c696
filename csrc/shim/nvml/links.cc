// NVLink and topology: every GPU of a simulated node is connected to the node's NVSwitches with all its links.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "shim/nvml/nvml.h"

using namespace ph;
using namespace ph::nvml;

namespace {

// Links per GPU and NVLink generation. Source: NVIDIA white papers of A100 (12 links of generation 3), H100 (18 of
// generation 4) and Blackwell (18 of generation 5). Other GPUs of A100's major version (A10, L40S, RTX 4090) have none here.
struct Links {
  unsigned count, generation;
};

Links links_of_node() noexcept {
  switch (config().number("gpu.major")) {
    case 8: return config().number("gpu.minor") == 0 ? Links{12, 3} : Links{0, 0};
    case 9: return {18, 4};
    case 10: return {18, 5};
    default: return {0, 0};
  }
}

// PCI buses of NVSwitches, above those of the GPUs; assumed, one switch for every three links.
constexpr unsigned kSwitchBus = 0xc0, kLinksPerSwitch = 3;

bool has_link(unsigned link) noexcept { return link < links_of_node().count; }

}  // namespace

extern "C" {

PH_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned link, nvmlEnableState_t* state) noexcept {
  PH_CALL(nvmlDeviceGetNvLinkState);
  PH_NVML_DEVICE(device, handle);
  if (!state) return NVML_ERROR_INVALID_ARGUMENT;
  if (!has_link(link)) return NVML_ERROR_NOT_SUPPORTED;
  *state = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t handle, unsigned link, unsigned* version) noexcept {
  PH_CALL(nvmlDeviceGetNvLinkVersion);
  PH_NVML_DEVICE(device, handle);
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  if (!has_link(link)) return NVML_ERROR_NOT_SUPPORTED;
  *version = links_of_node().generation;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t handle, unsigned link, nvmlNvLinkCapability_t which,
                                                     unsigned* has_it) noexcept {
  PH_CALL(nvmlDeviceGetNvLinkCapability);
  PH_NVML_DEVICE(device, handle);
  if (!has_it) return NVML_ERROR_INVALID_ARGUMENT;
  if (!has_link(link)) return NVML_ERROR_NOT_SUPPORTED;
  *has_it =
      which == NVML_NVLINK_CAP_P2P_SUPPORTED || which == NVML_NVLINK_CAP_P2P_ATOMICS || which == NVML_NVLINK_CAP_VALID;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t handle, unsigned link,
                                                           nvmlIntNvLinkDeviceType_t* type) noexcept {
  PH_CALL(nvmlDeviceGetNvLinkRemoteDeviceType);
  PH_NVML_DEVICE(device, handle);
  if (!type) return NVML_ERROR_INVALID_ARGUMENT;
  if (!has_link(link)) return NVML_ERROR_NOT_SUPPORTED;
  *type = NVML_NVLINK_DEVICE_TYPE_SWITCH;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t handle, unsigned link,
                                                           nvmlPciInfo_t* pci) noexcept {
  PH_CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2);
  PH_NVML_DEVICE(device, handle);
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  if (!has_link(link)) return NVML_ERROR_NOT_SUPPORTED;
  *pci = {};
  pci->bus = kSwitchBus + link / kLinksPerSwitch;
  std::snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus & 0xff);
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus & 0xff);
  return NVML_SUCCESS;
}

// GPUs behind NVSwitches of the third generation register with the node's fabric; without a cluster identity it
// ends at the node, which is how programs tell it from a rack-wide one. The program says by `version` how large
// its structure is: the second version ends before the summary.
PH_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t handle, nvmlGpuFabricInfoV_t* fabric) noexcept {
  PH_CALL(nvmlDeviceGetGpuFabricInfoV);
  PH_NVML_DEVICE(device, handle);
  constexpr std::size_t kSecondVersionBytes = offsetof(nvmlGpuFabricInfo_v3_t, healthSummary);
  constexpr unsigned kSizeMask = (1u << 24) - 1;
  if (!fabric) return NVML_ERROR_INVALID_ARGUMENT;
  const std::size_t bytes = fabric->version & kSizeMask;
  if (bytes < kSecondVersionBytes) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlGpuFabricInfoV_t answer{};
  answer.version = fabric->version;
  answer.state =
      config().number("gpu.major") >= 9 ? NVML_GPU_FABRIC_STATE_COMPLETED : NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
  std::memcpy(fabric, &answer, std::min(bytes, sizeof answer));
  return NVML_SUCCESS;
}

// Over PCIe the GPUs meet at the node's processors; assumed, NVLink is what matters between them.
PH_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second,
                                                           nvmlGpuTopologyLevel_t* level) noexcept {
  PH_CALL(nvmlDeviceGetTopologyCommonAncestor);
  PH_NVML_DEVICE(one, first);
  PH_NVML_DEVICE(other, second);
  if (!level) return NVML_ERROR_INVALID_ARGUMENT;
  *level = one == other ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second, nvmlGpuP2PCapsIndex_t which,
                                              nvmlGpuP2PStatus_t* status) noexcept {
  PH_CALL(nvmlDeviceGetP2PStatus);
  PH_NVML_DEVICE(one, first);
  PH_NVML_DEVICE(other, second);
  if (!status || which >= NVML_P2P_CAPS_INDEX_UNKNOWN) return NVML_ERROR_INVALID_ARGUMENT;
  *status = NVML_P2P_STATUS_OK;
  return NVML_SUCCESS;
}

}  // extern "C"
