/* covers: nvmlInit_v2 nvmlShutdown nvmlErrorString nvmlSystemGetDriverVersion nvmlSystemGetCudaDriverVersion_v2
   nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetHandleByUUID nvmlDeviceGetHandleByPciBusId_v2
   nvmlDeviceGetName nvmlDeviceGetIndex nvmlDeviceGetUUID nvmlDeviceGetPciInfo_v3 nvmlDeviceGetMemoryInfo
   nvmlDeviceGetCudaComputeCapability nvmlDeviceGetPowerUsage nvmlDeviceGetNvLinkState
   nvmlDeviceGetNvLinkRemoteDeviceType nvmlDeviceGetGpuFabricInfoV nvmlDeviceGetTopologyCommonAncestor
   nvmlDeviceGetP2PStatus */
#include <string.h>

#include "program.h"
#include "shim/nvml/nvml_types.h"

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
const char* nvmlErrorString(nvmlReturn_t);
nvmlReturn_t nvmlSystemGetDriverVersion(char*, unsigned int);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int*);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int*);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char*, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char*, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char*, unsigned int);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t, unsigned int*);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char*, unsigned int);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t, nvmlPciInfo_t*);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t*);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t, int*, int*);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned int*);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t, unsigned int, nvmlEnableState_t*);
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t, unsigned int, nvmlIntNvLinkDeviceType_t*);
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t, nvmlDevice_t, nvmlGpuTopologyLevel_t*);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t, nvmlDevice_t, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t*);

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t, nvmlGpuFabricInfoV_t*);

#define OK(call) REQUIRE(call, NVML_SUCCESS)

static void check_identity(nvmlDevice_t device, unsigned int index) {
  char text[96];
  nvmlDevice_t same;
  nvmlPciInfo_t pci;
  unsigned int seen = 99;
  OK(nvmlDeviceGetIndex(device, &seen));
  CHECK(seen == index);
  OK(nvmlDeviceGetName(device, text, sizeof text));
  CHECK(strlen(text) > 0);
  OK(nvmlDeviceGetUUID(device, text, sizeof text));
  CHECK(strncmp(text, "GPU-", 4) == 0 && strlen(text) == 40);
  OK(nvmlDeviceGetHandleByUUID(text, &same));
  CHECK(same == device);
  OK(nvmlDeviceGetPciInfo_v3(device, &pci));
  OK(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &same));
  CHECK(same == device);
}

/* Of a node with NVSwitches. */
static void check_links(nvmlDevice_t first, nvmlDevice_t second) {
  nvmlEnableState_t active;
  nvmlIntNvLinkDeviceType_t type;
  nvmlGpuTopologyLevel_t level;
  nvmlGpuP2PStatus_t status;
  OK(nvmlDeviceGetNvLinkState(first, 0, &active));
  CHECK(active == NVML_FEATURE_ENABLED);
  EXPECT(nvmlDeviceGetNvLinkState(first, 35, &active), NVML_ERROR_NOT_SUPPORTED);
  OK(nvmlDeviceGetNvLinkRemoteDeviceType(first, 0, &type));
  CHECK(type == NVML_NVLINK_DEVICE_TYPE_SWITCH);
  nvmlGpuFabricInfoV_t fabric = {.version = sizeof fabric | 3u << 24};
  OK(nvmlDeviceGetGpuFabricInfoV(first, &fabric));
  CHECK(fabric.state == NVML_GPU_FABRIC_STATE_COMPLETED && fabric.clusterUuid[0] == 0);
  OK(nvmlDeviceGetTopologyCommonAncestor(first, second, &level));
  OK(nvmlDeviceGetP2PStatus(first, second, NVML_P2P_CAPS_INDEX_READ, &status));
  CHECK(status == NVML_P2P_STATUS_OK);
}

int main(void) {
  unsigned int count = 0, power;
  int version = 0, major = 0, minor = 0;
  char driver[80];
  nvmlDevice_t first, last;
  nvmlMemory_t memory;
  EXPECT(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  OK(nvmlInit_v2());
  OK(nvmlSystemGetDriverVersion(driver, sizeof driver));
  OK(nvmlSystemGetCudaDriverVersion_v2(&version));
  CHECK(version >= 13000);
  OK(nvmlDeviceGetCount_v2(&count));
  CHECK(count >= 1);
  OK(nvmlDeviceGetHandleByIndex_v2(0, &first));
  OK(nvmlDeviceGetHandleByIndex_v2(count - 1, &last));
  EXPECT(nvmlDeviceGetHandleByIndex_v2(count, &last), NVML_ERROR_INVALID_ARGUMENT);
  check_identity(first, 0);
  check_identity(last, count - 1);
#ifdef PHANTORA_MODEL
  check_links(first, last);
  EXPECT(nvmlDeviceGetPowerUsage(first, &power), NVML_ERROR_NOT_SUPPORTED);
#else
  (void)check_links;
  OK(nvmlDeviceGetPowerUsage(first, &power));
#endif
  OK(nvmlDeviceGetMemoryInfo(first, &memory));
  CHECK(memory.used + memory.free <= memory.total && memory.free > 0);
  OK(nvmlDeviceGetCudaComputeCapability(first, &major, &minor));
  CHECK(major >= 8);
  CHECK(strcmp(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported") == 0);
  OK(nvmlShutdown());
  return differences;
}
