// Names and texts of driver errors.
#include "shim/cuda/driver.h"

using namespace ph;

namespace {

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

#define PH_ERROR(error, text) {error, #error, text}
constexpr ErrorText kErrors[] = {
    PH_ERROR(CUDA_SUCCESS, "no error"),
    PH_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    PH_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    PH_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    PH_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    PH_ERROR(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    PH_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    PH_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    PH_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    PH_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    PH_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    PH_ERROR(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    PH_ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    PH_ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    PH_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    PH_ERROR(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    PH_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    PH_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    PH_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    PH_ERROR(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    PH_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    PH_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    PH_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    PH_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    PH_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    PH_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    PH_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    PH_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    PH_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    PH_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    PH_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    PH_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    PH_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    PH_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    PH_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    PH_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    PH_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped"),
    PH_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    PH_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    PH_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    PH_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    PH_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    PH_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    PH_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    PH_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    PH_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    PH_ERROR(CUDA_ERROR_FUNCTION_NOT_LOADED, "function not loaded"),
    PH_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

const ErrorText* find(CUresult error) noexcept {
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) noexcept {
  PH_CALL(cuGetErrorString);
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* entry = find(error);
  *text = entry ? entry->text : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) noexcept {
  PH_CALL(cuGetErrorName);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* entry = find(error);
  *name = entry ? entry->name : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
