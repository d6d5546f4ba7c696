/* covers: nvmlInit nvmlInitWithFlags nvmlSystemGetNVMLVersion nvmlSystemGetCudaDriverVersion nvmlDeviceGetCount
   nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByPciBusId nvmlDeviceGetPciInfo nvmlDeviceGetMinorNumber
   nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetArchitecture nvmlDeviceGetBrand nvmlDeviceGetPersistenceMode
   nvmlDeviceGetComputeMode nvmlDeviceGetMigMode nvmlDeviceGetClockInfo nvmlDeviceGetMaxClockInfo
   nvmlDeviceGetTemperature nvmlDeviceGetUtilizationRates nvmlDeviceGetEnforcedPowerLimit
   nvmlDeviceGetTotalEnergyConsumption nvmlDeviceGetComputeRunningProcesses nvmlDeviceGetComputeRunningProcesses_v3
   nvmlDeviceGetNvLinkVersion nvmlDeviceGetNvLinkCapability nvmlDeviceGetNvLinkRemotePciInfo_v2 */
#include <string.h>

#include "program.h"
#include "shim/nvml/nvml_types.h"

nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlInitWithFlags(unsigned);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlSystemGetNVMLVersion(char*, unsigned);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int*);
nvmlReturn_t nvmlDeviceGetCount(unsigned*);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char*, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t, nvmlPciInfo_t*);
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t, unsigned*);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t*);
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t, nvmlDeviceArchitecture_t*);
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t, nvmlBrandType_t*);
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t, nvmlEnableState_t*);
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t, nvmlComputeMode_t*);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t, unsigned*, unsigned*);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t, nvmlClockType_t, unsigned*);
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t, nvmlClockType_t, unsigned*);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t, nvmlTemperatureSensors_t, unsigned*);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t*);
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t, unsigned*);
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t, unsigned long long*);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t, unsigned*, nvmlProcessInfo_v1_t*);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned*, nvmlProcessInfo_t*);
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t, unsigned, unsigned*);
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t, unsigned, nvmlNvLinkCapability_t, unsigned*);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, unsigned, nvmlPciInfo_t*);

#define OK(call) REQUIRE(call, NVML_SUCCESS)

static void check_modes(nvmlDevice_t device) {
  nvmlDeviceArchitecture_t architecture = 0;
  nvmlBrandType_t brand;
  nvmlEnableState_t persistence;
  nvmlComputeMode_t compute;
  unsigned current, pending, minor;
  nvmlMemory_v2_t memory = {.version = sizeof memory | 2u << 24};
  OK(nvmlDeviceGetArchitecture(device, &architecture));
  CHECK(architecture >= NVML_DEVICE_ARCH_AMPERE);
  OK(nvmlDeviceGetBrand(device, &brand));
  OK(nvmlDeviceGetPersistenceMode(device, &persistence));
  OK(nvmlDeviceGetComputeMode(device, &compute));
  OK(nvmlDeviceGetMinorNumber(device, &minor));
  OK(nvmlDeviceGetMemoryInfo_v2(device, &memory));
  CHECK(memory.total == memory.reserved + memory.used + memory.free);
  const unsigned others[] = {0, 2, sizeof memory | 1u << 24, sizeof memory | 3u << 24, (sizeof memory + 8) | 2u << 24};
  for (unsigned i = 0; i < sizeof others / sizeof others[0]; ++i) {
    memory.version = others[i];
    EXPECT(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_ERROR_FUNCTION_NOT_FOUND);
  }
#ifdef PHANTORA_MODEL
  OK(nvmlDeviceGetMigMode(device, &current, &pending));
  CHECK(architecture == NVML_DEVICE_ARCH_HOPPER && minor == 0 && current == 0 && pending == 0);
#else
  (void)nvmlDeviceGetMigMode(device, &current, &pending); /* not every GPU has it */
#endif
}

static void check_clocks(nvmlDevice_t device) {
  unsigned now = 0, most = 0;
  OK(nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &now));
  OK(nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_SM, &most));
  CHECK(now > 0 && now <= most);
  OK(nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_MEM, &most));
  CHECK(most > 1000);
  EXPECT(nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

/* Answers of a GPU on which nothing is measured, and of a node with NVSwitches. */
static void check_model(nvmlDevice_t device) {
  unsigned value = 0, count = 8;
  unsigned long long energy;
  nvmlUtilization_t load;
  nvmlProcessInfo_v1_t old[8];
  nvmlProcessInfo_t processes[8];
  nvmlPciInfo_t pci;
#ifdef PHANTORA_MODEL
  EXPECT(nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value), NVML_ERROR_NOT_SUPPORTED);
  EXPECT(nvmlDeviceGetUtilizationRates(device, &load), NVML_ERROR_NOT_SUPPORTED);
  EXPECT(nvmlDeviceGetEnforcedPowerLimit(device, &value), NVML_ERROR_NOT_SUPPORTED);
  EXPECT(nvmlDeviceGetTotalEnergyConsumption(device, &energy), NVML_ERROR_NOT_SUPPORTED);
  OK(nvmlDeviceGetComputeRunningProcesses(device, &count, old));
  CHECK(count == 0);
  count = 8;
  OK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes));
  CHECK(count == 0);
  OK(nvmlDeviceGetNvLinkVersion(device, 17, &value));
  CHECK(value == 4);
  OK(nvmlDeviceGetNvLinkCapability(device, 0, NVML_NVLINK_CAP_P2P_SUPPORTED, &value));
  CHECK(value == 1);
  OK(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 0, &pci));
  EXPECT(nvmlDeviceGetNvLinkVersion(device, 18, &value), NVML_ERROR_NOT_SUPPORTED);
#else
  OK(nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value));
  OK(nvmlDeviceGetUtilizationRates(device, &load));
  OK(nvmlDeviceGetEnforcedPowerLimit(device, &value));
  OK(nvmlDeviceGetTotalEnergyConsumption(device, &energy));
  (void)count, (void)old, (void)processes, (void)pci;
#endif
}

int main(void) {
  unsigned count = 0;
  int version = 0;
  char text[80];
  nvmlDevice_t device, same;
  nvmlPciInfo_t pci = {.pciSubSystemId = 77, .busId = "x"};
  OK(nvmlInit());
  OK(nvmlInitWithFlags(0));
  OK(nvmlShutdown());
  OK(nvmlSystemGetNVMLVersion(text, sizeof text));
  EXPECT(nvmlSystemGetNVMLVersion(text, 2), NVML_ERROR_INSUFFICIENT_SIZE);
  OK(nvmlSystemGetCudaDriverVersion(&version));
  CHECK(version >= 13000);
  OK(nvmlDeviceGetCount(&count));
  CHECK(count >= 1);
  OK(nvmlDeviceGetHandleByIndex(0, &device));
  OK(nvmlDeviceGetPciInfo(device, &pci));
  OK(nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy, &same));
  CHECK(same == device);
#ifdef PHANTORA_MODEL
  CHECK(pci.pciSubSystemId == 77 && pci.busId[0] == 'x'); /* later members of the structure */
#endif
  check_modes(device);
  check_clocks(device);
  check_model(device);
  OK(nvmlShutdown());
  EXPECT(nvmlDeviceGetCount(&count), NVML_ERROR_UNINITIALIZED);
  return differences;
}
