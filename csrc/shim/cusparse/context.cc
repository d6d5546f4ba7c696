// Handles of cuSPARSE, and the record of its operations.
#include "shim/cusparse/context.h"

#include "shim/calls/library.h"
#include "shim/core/handles.h"
#include "shim/launch/gemm.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using namespace ph;

namespace {

struct Context {
  cudaStream_t stream = nullptr;
  cusparsePointerMode_t pointer_mode = CUSPARSE_POINTER_MODE_HOST;
};

constinit HandleTable<Context> contexts(HandleTag::Cusparse);

}  // namespace

namespace ph::cusparse {

bool is_handle(cusparseHandle_t handle) noexcept { return contexts.get(handle) != nullptr; }

bool numbers_on_device(cusparseHandle_t handle) noexcept {
  const Context* context = contexts.get(handle);
  return context && context->pointer_mode == CUSPARSE_POINTER_MODE_DEVICE;
}

cusparseStatus_t record(cusparseHandle_t handle, const Operation& of,
                        std::initializer_list<const void*> outputs) noexcept {
  const Context* context = contexts.get(handle);
  if (!context) return CUSPARSE_STATUS_NOT_INITIALIZED;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUSPARSE_STATUS_EXECUTION_FAILED;
  emit_kernel(stream, payloads::SparseOperation{
                          .operation = of.name,
                          .type = number_name(of.type),
                          .m = of.m,
                          .n = of.n,
                          .k = of.k,
                          .nonzeros = of.nonzeros,
                          .index_bytes = of.index_bytes,
                          .batch = of.batch,
                      });
  forget_reached(outputs);
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace ph::cusparse

extern "C" {

PH_EXPORT cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) noexcept {
  PH_CALL(cusparseCreate, HostCost::Setup);
  if (!handle) return CUSPARSE_STATUS_INVALID_VALUE;
  ensure_context(current_device());
  *handle = static_cast<cusparseHandle_t>(contexts.create());
  return *handle ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;
}

PH_EXPORT cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) noexcept {
  PH_CALL(cusparseDestroy, HostCost::Setup);
  return contexts.destroy(handle) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_NOT_INITIALIZED;
}

PH_EXPORT cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int* version) noexcept {
  PH_CALL(cusparseGetVersion);
  if (!version) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = CUSPARSE_VERSION;
  return CUSPARSE_STATUS_SUCCESS;
}

PH_EXPORT cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) noexcept {
  PH_CALL(cusparseSetStream);
  Context* context = contexts.get(handle);
  if (!context) return CUSPARSE_STATUS_NOT_INITIALIZED;
  context->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}

PH_EXPORT cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) noexcept {
  PH_CALL(cusparseSetPointerMode);
  Context* context = contexts.get(handle);
  if (!context) return CUSPARSE_STATUS_NOT_INITIALIZED;
  context->pointer_mode = mode;
  return CUSPARSE_STATUS_SUCCESS;
}

PH_EXPORT const char* cusparseGetErrorString(cusparseStatus_t status) noexcept {
  PH_CALL(cusparseGetErrorString);
  switch (static_cast<int>(status)) {
    case CUSPARSE_STATUS_SUCCESS: return "success";
    case CUSPARSE_STATUS_NOT_INITIALIZED: return "initialization error";
    case CUSPARSE_STATUS_ALLOC_FAILED: return "out of memory";
    case CUSPARSE_STATUS_INVALID_VALUE: return "invalid value";
    case CUSPARSE_STATUS_ARCH_MISMATCH: return "architecture mismatch";
    case CUSPARSE_STATUS_EXECUTION_FAILED: return "kernel launch failure";
    case CUSPARSE_STATUS_INTERNAL_ERROR: return "internal error";
    case CUSPARSE_STATUS_NOT_SUPPORTED: return "operation not supported";
    default: return "unknown error";
  }
}

}  // extern "C"
