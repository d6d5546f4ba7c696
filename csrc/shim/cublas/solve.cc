// Triangular solves and the batched factorisations that PyTorch calls for small matrices.
//
// Their results are not computed. Where the vendor reports a status of its own through `info`, it is success.
#include "shim/core/gemm.h"
#include "shim/core/library.h"
#include "shim/core/values.h"
#include "shim/core/work.h"
#include "shim/cublas/context.h"

using ph::HostCost;
using ph::NamedSize;

namespace ph::cublas {
namespace {

cublasStatus_t record(cublasHandle_t handle, const char* operation, cudaDataType_t type,
                      std::initializer_list<NamedSize> sizes, const void* output) noexcept {
  const Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (const auto& [name, size] : sizes) {
    if (size < 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUBLAS_STATUS_EXECUTION_FAILED;

  if (output) forget_at(output);
  emit_kernel(stream, library_signature("cublas", operation, number_name(type), sizes));
  return CUBLAS_STATUS_SUCCESS;
}

// `side_left`: the triangular matrix is m x m, else n x n.
NamedSize triangle(cublasSideMode_t side) noexcept { return {"side_left", side == CUBLAS_SIDE_LEFT}; }

cublasStatus_t succeed(cublasStatus_t status, int* info) noexcept {
  if (status == CUBLAS_STATUS_SUCCESS && info) *info = 0;
  return status;
}

}  // namespace
}  // namespace ph::cublas

extern "C" {

#define PH_TRSM(name, Index, T, type)                                                                            \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t,                  \
                                cublasOperation_t, cublasDiagType_t, Index m, Index n, const T*, const T*,       \
                                Index, T* B, Index) noexcept {                                                   \
    PH_CALL(name, HostCost::Launch);                                                                             \
    return ph::cublas::record(handle, "trsm", type, {{"m", m}, {"n", n}, ph::cublas::triangle(side)}, B);        \
  }

#define PH_TRSM_BATCHED(name, Index, T, type)                                                                    \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t,                  \
                                cublasOperation_t, cublasDiagType_t, Index m, Index n, const T*,                 \
                                const T* const[], Index, T* const[], Index, Index count) noexcept {                    \
    PH_CALL(name, HostCost::Launch);                                                                             \
    return ph::cublas::record(handle, "trsm", type,                                                              \
                              {{"m", m}, {"n", n}, ph::cublas::triangle(side), {"batch", count}}, nullptr);      \
  }

#define PH_FACTORISATIONS(letter, T, type)                                                                       \
  PH_TRSM(cublas##letter##trsm_v2, int, T, type)                                                                 \
  PH_TRSM(cublas##letter##trsm_v2_64, std::int64_t, T, type)                                                     \
  PH_TRSM_BATCHED(cublas##letter##trsmBatched, int, T, type)                                                     \
  PH_TRSM_BATCHED(cublas##letter##trsmBatched_64, std::int64_t, T, type)                                         \
  PH_EXPORT cublasStatus_t cublas##letter##getrfBatched(cublasHandle_t handle, int n, T* const[], int, int*,     \
                                                        int* info, int count) noexcept {                         \
    PH_CALL(cublas##letter##getrfBatched, HostCost::Launch);                                                     \
    return ph::cublas::record(handle, "getrf", type, {{"n", n}, {"batch", count}}, info);                        \
  }                                                                                                              \
  PH_EXPORT cublasStatus_t cublas##letter##getrsBatched(cublasHandle_t handle, cublasOperation_t, int n,         \
                                                        int columns, const T* const[], int, const int*,          \
                                                        T* const[], int, int* info, int count) noexcept {        \
    PH_CALL(cublas##letter##getrsBatched, HostCost::Launch);                                                     \
    return ph::cublas::succeed(                                                                                  \
        ph::cublas::record(handle, "getrs", type, {{"n", n}, {"nrhs", columns}, {"batch", count}}, nullptr),     \
        info);                                                                                                   \
  }                                                                                                              \
  PH_EXPORT cublasStatus_t cublas##letter##geqrfBatched(cublasHandle_t handle, int m, int n, T* const[], int,    \
                                                        T* const[], int* info, int count) noexcept {             \
    PH_CALL(cublas##letter##geqrfBatched, HostCost::Launch);                                                     \
    return ph::cublas::succeed(                                                                                  \
        ph::cublas::record(handle, "geqrf", type, {{"m", m}, {"n", n}, {"batch", count}}, nullptr), info);       \
  }                                                                                                              \
  PH_EXPORT cublasStatus_t cublas##letter##gelsBatched(cublasHandle_t handle, cublasOperation_t, int m, int n,   \
                                                       int columns, T* const[], int, T* const[], int, int* info, \
                                                       int* device_info, int count) noexcept {                   \
    PH_CALL(cublas##letter##gelsBatched, HostCost::Launch);                                                      \
    return ph::cublas::succeed(                                                                                  \
        ph::cublas::record(handle, "gels", type, {{"m", m}, {"n", n}, {"nrhs", columns}, {"batch", count}},      \
                           device_info),                                                                         \
        info);                                                                                                   \
  }

PH_FACTORISATIONS(S, float, CUDA_R_32F)
PH_FACTORISATIONS(D, double, CUDA_R_64F)
PH_FACTORISATIONS(C, cuComplex, CUDA_C_32F)
PH_FACTORISATIONS(Z, cuDoubleComplex, CUDA_C_64F)

}  // extern "C"
