// Level 1 and 2: inner products and matrix-vector products.
#include <cstring>

#include "shim/calls/library.h"
#include "shim/channel/rank.h"
#include "shim/cublas/context.h"
#include "shim/cublas/product.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"
#include "shim/waiting/host_waits.h"

using ph::HostCost;

namespace ph::cublas {
namespace {

// A result in host memory is waited for, and nothing computed it: zero, and the record says so.
void give_result(const Context& context, StreamRef stream, void* result, cudaDataType_t type) noexcept {
  if (context.pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    forget_reached({result});
    return;
  }
  wait_stream(stream);
  std::memset(result, 0, number_bytes(type));
  Record record{};
  record.kind = RecordKind::SyntheticRead;
  record.device = stream.device;
  record.arg[SyntheticReadArg::Bytes] = number_bytes(type);
  emit(record, true);
}

cublasStatus_t inner_product(cublasHandle_t handle, std::int64_t n, cudaDataType_t type, const void* x, const void* y,
                             void* result, cudaDataType_t result_type) noexcept {
  const Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!result || (n > 0 && (!x || !y))) return CUBLAS_STATUS_INVALID_VALUE;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUBLAS_STATUS_EXECUTION_FAILED;

  const auto bytes = static_cast<std::int64_t>(number_bytes(type));
  emit_kernel(stream, payloads::Dot{.type = number_name(type), .n = n, .flops = 2 * n, .bytes = 2 * n * bytes});
  give_result(*context, stream, result, result_type);
  return CUBLAS_STATUS_SUCCESS;
}

// A matrix-vector product is the product with one column.
cublasStatus_t multiply_vector(cublasHandle_t handle, cublasOperation_t trans, std::int64_t rows, std::int64_t columns,
                               std::int64_t lda, cudaDataType_t type, cublasComputeType_t compute, const void* alpha,
                               const void* beta, const void* y) noexcept {
  if (!contexts.get(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  // Of a negative size, too: so answers cuBLAS 13, against its manual.
  if (rows <= 0 || columns <= 0) return CUBLAS_STATUS_SUCCESS;
  const std::int64_t m = trans == CUBLAS_OP_N ? rows : columns;
  const std::int64_t k = trans == CUBLAS_OP_N ? columns : rows;
  Gemm gemm = product(trans, CUBLAS_OP_N, m, 1, k, lda, k > 0 ? k : 1, m > 0 ? m : 1);
  gemm.a = gemm.b = gemm.c = gemm.d = static_cast<std::uint16_t>(type);
  gemm.compute = static_cast<std::uint16_t>(compute);
  return multiply(handle, gemm, alpha, beta, y);
}

}  // namespace
}  // namespace ph::cublas

extern "C" {

#define PH_DOT(name, Index, T, type)                                                                  \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, Index n, const T* x, Index, const T* y, Index, \
                                T* result) noexcept {                                                 \
    PH_CALL(name, HostCost::Library);                                                                 \
    return ph::cublas::inner_product(handle, n, type, x, y, result, type);                            \
  }

#define PH_GEMV(name, Index, T, type, compute)                                                                    \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasOperation_t trans, Index m, Index n, const T* alpha, \
                                const T*, Index lda, const T*, Index, const T* beta, T* y, Index) noexcept {      \
    PH_CALL(name, HostCost::Library);                                                                             \
    return ph::cublas::multiply_vector(handle, trans, m, n, lda, type, compute, alpha, beta, y);                  \
  }

#define PH_BOTH(macro, name, ...) macro(name##_v2, int, __VA_ARGS__) macro(name##_v2_64, std::int64_t, __VA_ARGS__)

PH_BOTH(PH_DOT, cublasSdot, float, CUDA_R_32F)
PH_BOTH(PH_DOT, cublasDdot, double, CUDA_R_64F)
PH_BOTH(PH_DOT, cublasCdotu, cuComplex, CUDA_C_32F)
PH_BOTH(PH_DOT, cublasCdotc, cuComplex, CUDA_C_32F)
PH_BOTH(PH_DOT, cublasZdotu, cuDoubleComplex, CUDA_C_64F)
PH_BOTH(PH_DOT, cublasZdotc, cuDoubleComplex, CUDA_C_64F)

PH_BOTH(PH_GEMV, cublasSgemv, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
PH_BOTH(PH_GEMV, cublasDgemv, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
PH_BOTH(PH_GEMV, cublasCgemv, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
PH_BOTH(PH_GEMV, cublasZgemv, cuDoubleComplex, CUDA_C_64F, CUBLAS_COMPUTE_64F)

PH_EXPORT cublasStatus_t cublasDotEx(cublasHandle_t handle, int n, const void* x, cudaDataType x_type, int,
                                     const void* y, cudaDataType, int, void* result, cudaDataType result_type,
                                     cudaDataType) noexcept {
  PH_CALL(cublasDotEx, HostCost::Library);
  return ph::cublas::inner_product(handle, n, x_type, x, y, result, result_type);
}

}  // extern "C"
