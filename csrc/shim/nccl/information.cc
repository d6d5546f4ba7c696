// NCCL's version, messages, memory and registration.
#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/failure_text.h"

using ph::HostCost;
using ph::nccl::failed;

extern "C" {

PH_EXPORT ncclResult_t ncclGetVersion(int* version) noexcept {
  PH_CALL(ncclGetVersion);
  if (!version) return failed(ncclInvalidArgument, "ncclGetVersion : version is null");
  *version = static_cast<int>(ph::config().number("nccl.version"));
  return ncclSuccess;
}

PH_EXPORT const char* ncclGetErrorString(ncclResult_t result) noexcept {
  PH_CALL(ncclGetErrorString);
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclTimeout: return "NCCL operation timed out";
    default: return "unknown result code";
  }
}

PH_EXPORT const char* ncclGetLastError(ncclComm_t) noexcept {
  PH_CALL(ncclGetLastError);
  return ph::nccl::last_failure();
}

PH_EXPORT ncclResult_t ncclMemAlloc(void** ptr, size_t size) noexcept {
  PH_CALL(ncclMemAlloc, HostCost::Alloc);
  if (!ptr || size == 0) return failed(ncclInvalidArgument, "ncclMemAlloc : ptr is null or size is zero");
  *ptr = ph::allocate_device(ph::current_device(), size);
  if (*ptr) return ncclSuccess;
  return failed(ncclUnhandledCudaError, "ncclMemAlloc : Cuda failure 2 'out of memory'");
}

PH_EXPORT ncclResult_t ncclMemFree(void* ptr) noexcept {
  PH_CALL(ncclMemFree, HostCost::Alloc);
  if (!ptr || ph::free_device(ptr)) return ncclSuccess;
  return failed(ncclInvalidArgument, "ncclMemFree : ptr was not allocated here");
}

// Registration changes how NCCL reaches a buffer, which the communication model does not look at.
PH_EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) noexcept {
  PH_CALL(ncclCommRegister);
  if (!ph::nccl::find(comm))
    return failed(ncclInvalidArgument, "ncclCommRegister : the communicator is null or destroyed");
  if (!buff || !handle || size == 0) return failed(ncclInvalidArgument, "ncclCommRegister : a null or empty argument");
  *handle = buff;
  return ncclSuccess;
}

PH_EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) noexcept {
  PH_CALL(ncclCommDeregister);
  if (ph::nccl::find(comm)) return ncclSuccess;
  return failed(ncclInvalidArgument, "ncclCommDeregister : the communicator is null or destroyed");
}

}  // extern "C"
