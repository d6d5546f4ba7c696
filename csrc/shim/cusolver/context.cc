// Handles of cuSOLVER's dense part; its operations are not modelled.
#include "shim/core/device.h"
#include "shim/core/handles.h"
#include "shim/core/library.h"
#include "shim/cusolver/cusolver_types.h"

using namespace ph;

namespace {

struct Context {
  cudaStream_t stream = nullptr;
};

constinit HandleTable<Context> contexts(HandleTag::Cusolver);

}  // namespace

extern "C" {

PH_EXPORT cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) noexcept {
  PH_CALL(cusolverDnCreate, HostCost::Setup);
  if (!handle) return CUSOLVER_STATUS_INVALID_VALUE;
  ensure_context(current_device());
  *handle = static_cast<cusolverDnHandle_t>(contexts.create());
  return *handle ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

PH_EXPORT cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) noexcept {
  PH_CALL(cusolverDnDestroy, HostCost::Setup);
  return contexts.destroy(handle) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_INITIALIZED;
}

PH_EXPORT cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) noexcept {
  PH_CALL(cusolverDnSetStream);
  Context* context = contexts.get(handle);
  if (!context) return CUSOLVER_STATUS_NOT_INITIALIZED;
  context->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

}  // extern "C"
