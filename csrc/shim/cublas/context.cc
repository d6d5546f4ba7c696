// Handles of cuBLAS and their settings. A handle takes device memory (workspace and loaded kernels), as much as
// the GPU's profile says.
#include "shim/cublas/context.h"

#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/core/device.h"

using ph::HostCost;
using ph::cublas::Context;
using ph::cublas::contexts;

namespace ph::cublas {
constinit HandleTable<Context> contexts(HandleTag::Cublas);
}

namespace {

template <class T>
cublasStatus_t read_setting(cublasHandle_t handle, T Context::* setting, T* value) noexcept {
  const Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  *value = context->*setting;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t write_setting(cublasHandle_t handle, T Context::* setting, T value) noexcept {
  Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  context->*setting = value;
  return CUBLAS_STATUS_SUCCESS;
}

struct StatusText {
  const char* name;
  const char* text;
};

StatusText status_text(cublasStatus_t status) noexcept {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return {"CUBLAS_STATUS_SUCCESS", "success"};
    case CUBLAS_STATUS_NOT_INITIALIZED: return {"CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"};
    case CUBLAS_STATUS_ALLOC_FAILED: return {"CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"};
    case CUBLAS_STATUS_INVALID_VALUE: return {"CUBLAS_STATUS_INVALID_VALUE", "an unsupported value was passed"};
    case CUBLAS_STATUS_ARCH_MISMATCH: return {"CUBLAS_STATUS_ARCH_MISMATCH", "the architecture lacks a feature"};
    case CUBLAS_STATUS_MAPPING_ERROR: return {"CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory failed"};
    case CUBLAS_STATUS_EXECUTION_FAILED: return {"CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch"};
    case CUBLAS_STATUS_INTERNAL_ERROR: return {"CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"};
    case CUBLAS_STATUS_NOT_SUPPORTED: return {"CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported"};
    case CUBLAS_STATUS_LICENSE_ERROR: return {"CUBLAS_STATUS_LICENSE_ERROR", "a license is missing"};
  }
  return {"CUBLAS_STATUS_UNKNOWN", "unknown status"};
}

}  // namespace

extern "C" {

PH_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) noexcept {
  PH_CALL(cublasCreate_v2, HostCost::Setup);
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  Context context;
  context.device = ph::current_device();
  context.memory_bytes = static_cast<std::size_t>(ph::config().number("gpu.cublas_bytes_per_handle"));
  ph::ensure_context(context.device);
  if (!ph::take_memory(context.device, context.memory_bytes, ph::MemoryKind::Library)) {
    return CUBLAS_STATUS_ALLOC_FAILED;
  }
  *handle = static_cast<cublasHandle_t>(contexts.create(context));
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

PH_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) noexcept {
  PH_CALL(cublasDestroy_v2, HostCost::Setup);
  const Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  ph::give_memory(context->device, context->memory_bytes, ph::MemoryKind::Library);
  contexts.destroy(handle);
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) noexcept {
  PH_CALL(cublasGetVersion_v2);
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) noexcept {
  PH_CALL(cublasGetProperty);
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  switch (type) {
    case MAJOR_VERSION: *value = CUBLAS_VER_MAJOR; return CUBLAS_STATUS_SUCCESS;
    case MINOR_VERSION: *value = CUBLAS_VER_MINOR; return CUBLAS_STATUS_SUCCESS;
    case PATCH_LEVEL: *value = CUBLAS_VER_PATCH; return CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

PH_EXPORT size_t cublasGetCudartVersion() noexcept {
  PH_CALL(cublasGetCudartVersion);
  return 13020;  // the runtime of the same release
}

PH_EXPORT const char* cublasGetStatusName(cublasStatus_t status) noexcept {
  PH_CALL(cublasGetStatusName);
  return status_text(status).name;
}

PH_EXPORT const char* cublasGetStatusString(cublasStatus_t status) noexcept {
  PH_CALL(cublasGetStatusString);
  return status_text(status).text;
}

// As with the vendor, a new stream resets the workspace to the default one.
PH_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) noexcept {
  PH_CALL(cublasSetStream_v2);
  Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  context->stream = stream;
  context->workspace = nullptr;
  context->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) noexcept {
  PH_CALL(cublasGetStream_v2);
  return read_setting(handle, &Context::stream, stream);
}

PH_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) noexcept {
  PH_CALL(cublasSetWorkspace_v2);
  Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  context->workspace = workspace;
  context->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) noexcept {
  PH_CALL(cublasSetPointerMode_v2);
  return write_setting(handle, &Context::pointer_mode, mode);
}

PH_EXPORT cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) noexcept {
  PH_CALL(cublasGetPointerMode_v2);
  return read_setting(handle, &Context::pointer_mode, mode);
}

PH_EXPORT cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) noexcept {
  PH_CALL(cublasSetAtomicsMode);
  return write_setting(handle, &Context::atomics_mode, mode);
}

PH_EXPORT cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) noexcept {
  PH_CALL(cublasGetAtomicsMode);
  return read_setting(handle, &Context::atomics_mode, mode);
}

PH_EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) noexcept {
  PH_CALL(cublasSetMathMode);
  return write_setting(handle, &Context::math_mode, mode);
}

PH_EXPORT cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) noexcept {
  PH_CALL(cublasGetMathMode);
  return read_setting(handle, &Context::math_mode, mode);
}

PH_EXPORT cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int sm_count) noexcept {
  PH_CALL(cublasSetSmCountTarget);
  return write_setting(handle, &Context::sm_count_target, sm_count);
}

PH_EXPORT cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* sm_count) noexcept {
  PH_CALL(cublasGetSmCountTarget);
  return read_setting(handle, &Context::sm_count_target, sm_count);
}

}  // extern "C"
