// Initialisation, versions and error texts.
#include <atomic>
#include <cstdio>

#include "shim/nvml/nvml.h"

using namespace ph;
using namespace ph::nvml;

namespace {

std::atomic<int> users{0};

nvmlReturn_t begin() noexcept {
  users.fetch_add(1);
  return NVML_SUCCESS;
}

nvmlReturn_t write_text(char* text, unsigned length, const char* value) noexcept {
  if (!text) return NVML_ERROR_INVALID_ARGUMENT;
  const int needed = std::snprintf(text, length, "%s", value);
  return static_cast<unsigned>(needed) < length ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t cuda_version(int* version) noexcept {
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  *version = static_cast<int>(config().number("gpu.driverVersion"));
  return NVML_SUCCESS;
}

}  // namespace

namespace ph::nvml {
bool initialised() noexcept { return users.load(std::memory_order_relaxed) > 0; }
}  // namespace ph::nvml

extern "C" {

PH_EXPORT nvmlReturn_t nvmlInit() noexcept {
  PH_CALL(nvmlInit, HostCost::Setup);
  return begin();
}

PH_EXPORT nvmlReturn_t nvmlInit_v2() noexcept {
  PH_CALL(nvmlInit_v2, HostCost::Setup);
  return begin();
}

PH_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned) noexcept {
  PH_CALL(nvmlInitWithFlags, HostCost::Setup);
  return begin();
}

PH_EXPORT nvmlReturn_t nvmlShutdown() noexcept {
  PH_CALL(nvmlShutdown, HostCost::Setup);
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  users.fetch_sub(1);
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) noexcept {
  PH_CALL(nvmlSystemGetDriverVersion);
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  return write_text(version, length, config().text("gpu.driverRelease").c_str());
}

// NVML's own version is the CUDA major before the driver's release.
PH_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) noexcept {
  PH_CALL(nvmlSystemGetNVMLVersion);
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  const std::string text =
      std::to_string(config().number("gpu.driverVersion") / 1000) + "." + config().text("gpu.driverRelease");
  return write_text(version, length, text.c_str());
}

PH_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) noexcept {
  PH_CALL(nvmlSystemGetCudaDriverVersion);
  return cuda_version(version);
}

PH_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) noexcept {
  PH_CALL(nvmlSystemGetCudaDriverVersion_v2);
  return cuda_version(version);
}

PH_EXPORT const char* nvmlErrorString(nvmlReturn_t result) noexcept {
  PH_CALL(nvmlErrorString);
  switch (static_cast<int>(result)) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
  }
}

}  // extern "C"
