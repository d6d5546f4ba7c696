// Handles, versions and error texts of cuDNN.
#include "shim/cudnn/context.h"

#include "shim/calls/library.h"
#include "shim/core/device.h"

using namespace ph;
using ph::cudnn::Context;
using ph::cudnn::contexts;

namespace ph::cudnn {
constinit HandleTable<Context> contexts(HandleTag::Cudnn);
}

namespace {

const char* status_name(cudnnStatus_t status) noexcept {
  switch (static_cast<int>(status)) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN: return "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN";
    case CUDNN_STATUS_INTERNAL_ERROR: return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_UNKNOWN_STATUS";
  }
}

}  // namespace

extern "C" {

PH_EXPORT size_t cudnnGetVersion() noexcept {
  PH_CALL(cudnnGetVersion);
  return CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL;
}

PH_EXPORT size_t cudnnGetCudartVersion() noexcept {
  PH_CALL(cudnnGetCudartVersion);
  return 13020;  // assumed; PyTorch only prints it
}

PH_EXPORT cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) noexcept {
  PH_CALL(cudnnGetProperty);
  constexpr int kVersion[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUDNN_STATUS_BAD_PARAM;
  *value = kVersion[type];
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT const char* cudnnGetErrorString(cudnnStatus_t status) noexcept {
  PH_CALL(cudnnGetErrorString);
  return status_name(status);
}

// Our own errors carry no text beyond their name.
PH_EXPORT void cudnnGetLastErrorString(char* message, size_t bytes) noexcept {
  PH_CALL(cudnnGetLastErrorString);
  if (message && bytes > 0) *message = '\0';
}

PH_EXPORT cudnnStatus_t cudnnGraphVersionCheck() noexcept {
  PH_CALL(cudnnGraphVersionCheck);
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) noexcept {
  PH_CALL(cudnnCreate, HostCost::Setup);
  if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  ensure_context(current_device());
  *handle = static_cast<cudnnHandle_t>(contexts.create());
  return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) noexcept {
  PH_CALL(cudnnDestroy, HostCost::Setup);
  return contexts.destroy(handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_INITIALIZED;
}

PH_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) noexcept {
  PH_CALL(cudnnSetStream);
  Context* context = contexts.get(handle);
  if (!context) return CUDNN_STATUS_NOT_INITIALIZED;
  context->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) noexcept {
  PH_CALL(cudnnGetStream);
  const Context* context = contexts.get(handle);
  if (!context) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!stream) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *stream = context->stream;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
