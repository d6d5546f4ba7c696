// Error codes: the state of a thread, names and texts.
#include "shim/cudart/cudart.h"

#include <unordered_map>

namespace ph::cudart {

namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  const char* name;
  const char* text;
};

// The codes that our bodies return and those that PyTorch names; texts are ours.
const std::unordered_map<int, ErrorText>& error_texts() {
#define PH_ERROR(code, text) \
  {                          \
    code, { #code, text }    \
  }
  static const std::unordered_map<int, ErrorText> texts{
      PH_ERROR(cudaSuccess, "no error"),
      PH_ERROR(cudaErrorInvalidValue, "invalid argument"),
      PH_ERROR(cudaErrorMemoryAllocation, "out of memory"),
      PH_ERROR(cudaErrorInitializationError, "initialization error"),
      PH_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
      PH_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
      PH_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
      PH_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
      PH_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
      PH_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
      PH_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
      PH_ERROR(cudaErrorNotReady, "device not ready"),
      PH_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
      PH_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
      PH_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
      PH_ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
      PH_ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
      PH_ERROR(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
      PH_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
      PH_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
      PH_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
      PH_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
      PH_ERROR(cudaErrorAssert, "device-side assert triggered"),
      PH_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
      PH_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
      PH_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
      PH_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
      PH_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
      PH_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
      PH_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
      PH_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
      PH_ERROR(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing stream"),
      PH_ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
      PH_ERROR(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture from another thread"),
      PH_ERROR(cudaErrorGraphExecUpdateFailure, "the graph update was not performed because it has other nodes"),
      PH_ERROR(cudaErrorNotSupported, "operation not supported"),
      PH_ERROR(cudaErrorUnknown, "unknown error"),
  };
#undef PH_ERROR
  return texts;
}

}  // namespace

cudaError_t returned(cudaError_t error) noexcept {
  // "Not ready" is an answer, not an error that is kept. Source: CUDA runtime API, cudaEventQuery.
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

}  // namespace ph::cudart

void ph::library::note_unsupported(const char*) noexcept { cudart::returned(cudaErrorNotSupported); }

extern "C" {

PH_EXPORT cudaError_t cudaGetLastError() noexcept {
  PH_CALL(cudaGetLastError);
  const cudaError_t error = ph::cudart::last_error;
  ph::cudart::last_error = cudaSuccess;
  return error;
}

PH_EXPORT cudaError_t cudaPeekAtLastError() noexcept {
  PH_CALL(cudaPeekAtLastError);
  return ph::cudart::last_error;
}

PH_EXPORT const char* cudaGetErrorName(cudaError_t error) noexcept {
  PH_CALL(cudaGetErrorName);
  const auto entry = ph::cudart::error_texts().find(error);
  return entry == ph::cudart::error_texts().end() ? "unrecognized error code" : entry->second.name;
}

PH_EXPORT const char* cudaGetErrorString(cudaError_t error) noexcept {
  PH_CALL(cudaGetErrorString);
  const auto entry = ph::cudart::error_texts().find(error);
  return entry == ph::cudart::error_texts().end() ? "unrecognized error code" : entry->second.text;
}

}  // extern "C"
