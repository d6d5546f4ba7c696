// Dropout descriptors: whether something is dropped, and the random states for it in device memory.
#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/cudnn/context.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::cudnn;

namespace ph::cudnn {
constinit HandleTable<Dropout> dropouts(HandleTag::Dropout);
}

namespace {

// Assumed: one state of cuRAND's default generator (48 bytes, curand_kernel.h) for every thread that the GPU holds.
std::size_t states_bytes() {
  constexpr std::int64_t kStateBytes = 48;
  return static_cast<std::size_t>(kStateBytes * config().number("gpu.multiProcessorCount") *
                                  config().number("gpu.maxThreadsPerMultiProcessor"));
}

// Without dropout no states are needed.
cudnnStatus_t check(const Context* context, const Dropout* dropout, float probability, const void* states,
                    std::size_t bytes) {
  if (!context) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!dropout || probability < 0) return CUDNN_STATUS_BAD_PARAM;  // cuDNN 9.19 takes more than 1
  return states && bytes < states_bytes() ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* dropout) noexcept {
  PH_CALL(cudnnCreateDropoutDescriptor);
  if (!dropout) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *dropout = static_cast<cudnnDropoutDescriptor_t>(dropouts.create());
  return *dropout ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout) noexcept {
  PH_CALL(cudnnDestroyDropoutDescriptor);
  return dropouts.destroy(dropout) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

PH_EXPORT cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t* bytes) noexcept {
  PH_CALL(cudnnDropoutGetStatesSize);
  if (!contexts.get(handle)) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = states_bytes();
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t handle, cudnnHandle_t context_handle,
                                                  float probability, void* states, size_t bytes,
                                                  unsigned long long) noexcept {
  PH_CALL(cudnnSetDropoutDescriptor);
  const Context* context = contexts.get(context_handle);
  Dropout* dropout = dropouts.get(handle);
  const cudnnStatus_t status = check(context, dropout, probability, states, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  *dropout = {.drops = probability > 0};
  if (!states) return CUDNN_STATUS_SUCCESS;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUDNN_STATUS_EXECUTION_FAILED;
  emit_kernel(stream, payloads::DropoutStates{.type = "i32", .bytes = static_cast<std::int64_t>(states_bytes())});
  forget_reached({states});
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t handle, cudnnHandle_t context_handle,
                                                      float probability, void* states, size_t bytes,
                                                      unsigned long long) noexcept {
  PH_CALL(cudnnRestoreDropoutDescriptor);
  Dropout* dropout = dropouts.get(handle);
  const cudnnStatus_t status = check(contexts.get(context_handle), dropout, probability, states, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  *dropout = {.drops = probability > 0};
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
