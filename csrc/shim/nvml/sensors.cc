// What a device's sensors would say.
//
// Nothing is simulated of power, temperature or load: those queries answer "not supported", as in many virtual
// machines, rather than with an invented figure.
#include "shim/nvml/nvml.h"

#include <atomic>
#include <string>

#include <unistd.h>

#include "shim/channel/rank.h"

using namespace ph;
using namespace ph::nvml;

namespace {

nvmlReturn_t write_clock(nvmlDevice_t handle, nvmlClockType_t type, unsigned* clock_mhz) noexcept {
  PH_NVML_DEVICE(device, handle);
  if (!clock_mhz) return NVML_ERROR_INVALID_ARGUMENT;
  if (type == NVML_CLOCK_VIDEO) return NVML_ERROR_NOT_SUPPORTED;
  const char* key = type == NVML_CLOCK_MEM ? "gpu.memoryClockRate" : "gpu.clockRate";
  *clock_mhz = static_cast<unsigned>(config().number(key) / 1000);
  return NVML_SUCCESS;
}

// Many tools take "not supported" for a reason to show nothing: a line says why, once for each call in a rank.
nvmlReturn_t no_sensor(nvmlDevice_t handle, const char* symbol, std::atomic_flag& told) noexcept {
  PH_NVML_DEVICE(device, handle);
  if (attached() && !told.test_and_set(std::memory_order_relaxed)) {
    const std::string message = std::string("phantora: ") + symbol +
                                " of nvml answers not supported: neither load nor power, energy and temperature of a "
                                "GPU are simulated; `phantora report` has the time in which it works\n";
    // Nobody can be told if that fails.
    [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
  }
  return NVML_ERROR_NOT_SUPPORTED;
}

// Processes of other ranks are not visible, as with process namespaces on real nodes.
nvmlReturn_t no_processes(nvmlDevice_t handle, unsigned* count) noexcept {
  PH_NVML_DEVICE(device, handle);
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* clock) noexcept {
  PH_CALL(nvmlDeviceGetClockInfo);
  return write_clock(device, type, clock);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* clock) noexcept {
  PH_CALL(nvmlDeviceGetMaxClockInfo);
  return write_clock(device, type, clock);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t*) noexcept {
  PH_CALL(nvmlDeviceGetUtilizationRates);
  static std::atomic_flag told;
  return no_sensor(device, "nvmlDeviceGetUtilizationRates", told);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned*) noexcept {
  PH_CALL(nvmlDeviceGetPowerUsage);
  static std::atomic_flag told;
  return no_sensor(device, "nvmlDeviceGetPowerUsage", told);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned*) noexcept {
  PH_CALL(nvmlDeviceGetEnforcedPowerLimit);
  static std::atomic_flag told;
  return no_sensor(device, "nvmlDeviceGetEnforcedPowerLimit", told);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long*) noexcept {
  PH_CALL(nvmlDeviceGetTotalEnergyConsumption);
  static std::atomic_flag told;
  return no_sensor(device, "nvmlDeviceGetTotalEnergyConsumption", told);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t, unsigned*) noexcept {
  PH_CALL(nvmlDeviceGetTemperature);
  static std::atomic_flag told;
  return no_sensor(device, "nvmlDeviceGetTemperature", told);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                            nvmlProcessInfo_v1_t*) noexcept {
  PH_CALL(nvmlDeviceGetComputeRunningProcesses);
  return no_processes(device, count);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                               nvmlProcessInfo_t*) noexcept {
  PH_CALL(nvmlDeviceGetComputeRunningProcesses_v3);
  return no_processes(device, count);
}

}  // extern "C"
