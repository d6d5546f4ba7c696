// Triangular solves and the batched factorisations that PyTorch calls for small matrices.
//
// Their results are not computed. Where the vendor reports a status of its own through `info`, it is success.
// Operation counts are those of the LAPACK working note 41, leading terms.
#include "shim/calls/library.h"
#include "shim/cublas/context.h"
#include "shim/launch/gemm.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using ph::HostCost;

namespace ph::cublas {
namespace {

// A solve: `m` x `n` is what LAPACK's routine of that name calls so, `columns` its right-hand sides.
struct Problem {
  const char* operation;
  cudaDataType_t type;
  std::int64_t m, n, columns, batch;
  double flops;     // of one matrix
  double elements;  // read or written, of one matrix
};

// What a call writes on the device: directly, and through arrays of pointers.
struct Outputs {
  std::initializer_list<const void*> direct;
  std::initializer_list<const void*> arrays;
};

cublasStatus_t record(cublasHandle_t handle, const Problem& of, const Outputs& outputs) noexcept {
  const Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (of.m < 0 || of.n < 0 || of.columns < 0 || of.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUBLAS_STATUS_EXECUTION_FAILED;

  const auto batch = static_cast<double>(of.batch);
  const double bytes = of.elements * batch * static_cast<double>(number_bytes(of.type));
  emit_kernel(stream, payloads::Solve{
                          .operation = of.operation,
                          .type = number_name(of.type),
                          .m = of.m,
                          .n = of.n,
                          .nrhs = of.columns,
                          .batch = of.batch,
                          .flops = static_cast<std::int64_t>(of.flops * batch),
                          .bytes = static_cast<std::int64_t>(bytes),
                      });
  forget_reached(outputs.direct);
  for (const void* array : outputs.arrays) forget_pointed(array, static_cast<std::size_t>(of.batch));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t record(cublasHandle_t handle, const Problem& of, int* host_info, const Outputs& outputs) noexcept {
  const cublasStatus_t status = record(handle, of, outputs);
  if (status == CUBLAS_STATUS_SUCCESS && host_info) *host_info = 0;
  return status;
}

// B is m x n; the triangle is as large as the side of B on which it stands.
Problem trsm(cudaDataType_t type, cublasSideMode_t side, std::int64_t m, std::int64_t n, std::int64_t batch) noexcept {
  const auto triangle = static_cast<double>(side == CUBLAS_SIDE_LEFT ? m : n);
  const double b = static_cast<double>(m) * static_cast<double>(n);
  return {"trsm", type, m, n, n, batch, b * triangle, 2 * b + triangle * triangle / 2};
}

Problem getrf(cudaDataType_t type, std::int64_t n, std::int64_t batch) noexcept {
  const auto size = static_cast<double>(n);
  return {"getrf", type, n, n, 0, batch, 2.0 / 3 * size * size * size, 2 * size * size};
}

Problem getrs(cudaDataType_t type, std::int64_t n, std::int64_t columns, std::int64_t batch) noexcept {
  const auto size = static_cast<double>(n), right = static_cast<double>(columns);
  return {"getrs", type, n, n, columns, batch, 2 * size * size * right, size * size + 2 * size * right};
}

Problem geqrf(cudaDataType_t type, std::int64_t m, std::int64_t n, std::int64_t batch) noexcept {
  const auto rows = static_cast<double>(m), size = static_cast<double>(n);
  return {"geqrf", type, m, n, 0, batch, 2 * rows * size * size - 2.0 / 3 * size * size * size, 2 * rows * size};
}

// A QR factorisation, its application to the right-hand sides, and a triangular solve.
Problem gels(cudaDataType_t type, std::int64_t m, std::int64_t n, std::int64_t columns, std::int64_t batch) noexcept {
  Problem of = geqrf(type, m, n, batch);
  const auto rows = static_cast<double>(m), size = static_cast<double>(n), right = static_cast<double>(columns);
  of.operation = "gels";
  of.columns = columns;
  of.flops += 4 * rows * size * right + size * size * right;
  of.elements += 2 * rows * right;
  return of;
}

}  // namespace
}  // namespace ph::cublas

extern "C" {

#define PH_TRSM(name, Index, T, type)                                                                                  \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t, cublasOperation_t,     \
                                cublasDiagType_t, Index m, Index n, const T*, const T*, Index, T* B, Index) noexcept { \
    PH_CALL(name, HostCost::Library);                                                                                  \
    return ph::cublas::record(handle, ph::cublas::trsm(type, side, m, n, 1), {{B}, {}});                               \
  }

#define PH_TRSM_BATCHED(name, Index, T, type)                                                                        \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t, cublasOperation_t,   \
                                cublasDiagType_t, Index m, Index n, const T*, const T* const[], Index, T* const B[], \
                                Index, Index count) noexcept {                                                       \
    PH_CALL(name, HostCost::Library);                                                                                \
    return ph::cublas::record(handle, ph::cublas::trsm(type, side, m, n, count), {{}, {B}});                         \
  }

#define PH_FACTORISATIONS(letter, T, type)                                                                            \
  PH_TRSM(cublas##letter##trsm_v2, int, T, type)                                                                      \
  PH_TRSM(cublas##letter##trsm_v2_64, std::int64_t, T, type)                                                          \
  PH_TRSM_BATCHED(cublas##letter##trsmBatched, int, T, type)                                                          \
  PH_TRSM_BATCHED(cublas##letter##trsmBatched_64, std::int64_t, T, type)                                              \
  PH_EXPORT cublasStatus_t cublas##letter##getrfBatched(cublasHandle_t handle, int n, T* const A[], int, int* pivots, \
                                                        int* info, int count) noexcept {                              \
    PH_CALL(cublas##letter##getrfBatched, HostCost::Library);                                                         \
    return ph::cublas::record(handle, ph::cublas::getrf(type, n, count), {{pivots, info}, {A}});                      \
  }                                                                                                                   \
  PH_EXPORT cublasStatus_t cublas##letter##getrsBatched(cublasHandle_t handle, cublasOperation_t, int n, int columns, \
                                                        const T* const[], int, const int*, T* const B[], int,         \
                                                        int* info, int count) noexcept {                              \
    PH_CALL(cublas##letter##getrsBatched, HostCost::Library);                                                         \
    return ph::cublas::record(handle, ph::cublas::getrs(type, n, columns, count), info, {{}, {B}});                   \
  }                                                                                                                   \
  PH_EXPORT cublasStatus_t cublas##letter##geqrfBatched(cublasHandle_t handle, int m, int n, T* const A[], int,       \
                                                        T* const tau[], int* info, int count) noexcept {              \
    PH_CALL(cublas##letter##geqrfBatched, HostCost::Library);                                                         \
    return ph::cublas::record(handle, ph::cublas::geqrf(type, m, n, count), info, {{}, {A, tau}});                    \
  }                                                                                                                   \
  PH_EXPORT cublasStatus_t cublas##letter##gelsBatched(cublasHandle_t handle, cublasOperation_t, int m, int n,        \
                                                       int columns, T* const A[], int, T* const C[], int, int* info,  \
                                                       int* device_info, int count) noexcept {                        \
    PH_CALL(cublas##letter##gelsBatched, HostCost::Library);                                                          \
    return ph::cublas::record(handle, ph::cublas::gels(type, m, n, columns, count), info, {{device_info}, {A, C}});   \
  }

PH_FACTORISATIONS(S, float, CUDA_R_32F)
PH_FACTORISATIONS(D, double, CUDA_R_64F)
PH_FACTORISATIONS(C, cuComplex, CUDA_C_32F)
PH_FACTORISATIONS(Z, cuDoubleComplex, CUDA_C_64F)

}  // extern "C"
