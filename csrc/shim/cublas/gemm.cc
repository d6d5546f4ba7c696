// Matrix products: the typed entries and the extended ones, with 32-bit and 64-bit sizes.
#include "shim/calls/library.h"
#include "shim/cublas/product.h"

using ph::Gemm;
using ph::GemmBatch;
using ph::HostCost;
using ph::cublas::multiply;
using ph::cublas::product;

namespace {

Gemm typed(Gemm gemm, cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cublasComputeType_t compute) noexcept {
  gemm.a = static_cast<std::uint16_t>(a);
  gemm.b = static_cast<std::uint16_t>(b);
  gemm.c = gemm.d = static_cast<std::uint16_t>(c);
  gemm.compute = static_cast<std::uint16_t>(compute);
  return gemm;
}

Gemm strided(Gemm gemm, std::int64_t stride_a, std::int64_t stride_b, std::int64_t stride_c,
             std::int64_t count) noexcept {
  gemm.batch = GemmBatch::Strided;
  gemm.stride_a = stride_a;
  gemm.stride_b = stride_b;
  gemm.stride_c = gemm.stride_d = stride_c;
  gemm.batch_count = static_cast<std::uint32_t>(count);
  return gemm;
}

Gemm pointer_array(Gemm gemm, std::int64_t count) noexcept {
  gemm.batch = GemmBatch::PointerArray;
  gemm.batch_count = static_cast<std::uint32_t>(count);
  return gemm;
}

}  // namespace

extern "C" {

#define PH_SIZES product(transa, transb, m, n, k, lda, ldb, ldc)
#define PH_SAME_TYPE(type, compute) typed(PH_SIZES, type, type, type, compute)

#define PH_GEMM(name, Index, T, type, compute)                                                                      \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, \
                                Index n, Index k, const T* alpha, const T*, Index lda, const T*, Index ldb,         \
                                const T* beta, T* C, Index ldc) noexcept {                                          \
    PH_CALL(name, HostCost::Library);                                                                               \
    return multiply(handle, PH_SAME_TYPE(type, compute), alpha, beta, C);                                           \
  }

#define PH_GEMM_STRIDED(name, Index, T, type, compute)                                                              \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, \
                                Index n, Index k, const T* alpha, const T*, Index lda, long long int stride_a,      \
                                const T*, Index ldb, long long int stride_b, const T* beta, T* C, Index ldc,        \
                                long long int stride_c, Index count) noexcept {                                     \
    PH_CALL(name, HostCost::Library);                                                                               \
    return multiply(handle, strided(PH_SAME_TYPE(type, compute), stride_a, stride_b, stride_c, count), alpha, beta, \
                    C);                                                                                             \
  }

#define PH_GEMM_BATCHED(name, Index, T, type, compute)                                                              \
  PH_EXPORT cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, \
                                Index n, Index k, const T* alpha, const T* const[], Index lda, const T* const[],    \
                                Index ldb, const T* beta, T* const C[], Index ldc, Index count) noexcept {          \
    PH_CALL(name, HostCost::Library);                                                                               \
    return multiply(handle, pointer_array(PH_SAME_TYPE(type, compute), count), alpha, beta, C);                     \
  }

#define PH_GEMM_FAMILY(letter, T, type, compute, suffix)                                 \
  PH_GEMM(cublas##letter##gemm##suffix, int, T, type, compute)                           \
  PH_GEMM(cublas##letter##gemm##suffix##_64, std::int64_t, T, type, compute)             \
  PH_GEMM_STRIDED(cublas##letter##gemmStridedBatched, int, T, type, compute)             \
  PH_GEMM_STRIDED(cublas##letter##gemmStridedBatched_64, std::int64_t, T, type, compute) \
  PH_GEMM_BATCHED(cublas##letter##gemmBatched, int, T, type, compute)                    \
  PH_GEMM_BATCHED(cublas##letter##gemmBatched_64, std::int64_t, T, type, compute)

PH_GEMM_FAMILY(S, float, CUDA_R_32F, CUBLAS_COMPUTE_32F, _v2)
PH_GEMM_FAMILY(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F, _v2)
PH_GEMM_FAMILY(C, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F, _v2)
PH_GEMM_FAMILY(Z, cuDoubleComplex, CUDA_C_64F, CUBLAS_COMPUTE_64F, _v2)
PH_GEMM_FAMILY(H, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F, )

#define PH_GEMM_EX(suffix, Index)                                                                                     \
  PH_EXPORT cublasStatus_t cublasGemmEx##suffix(                                                                      \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n, Index k,           \
      const void* alpha, const void*, cudaDataType a_type, Index lda, const void*, cudaDataType b_type, Index ldb,    \
      const void* beta, void* C, cudaDataType c_type, Index ldc, cublasComputeType_t compute,                         \
      cublasGemmAlgo_t) noexcept {                                                                                    \
    PH_CALL(cublasGemmEx##suffix, HostCost::Library);                                                                 \
    return multiply(handle, typed(PH_SIZES, a_type, b_type, c_type, compute), alpha, beta, C);                        \
  }                                                                                                                   \
  PH_EXPORT cublasStatus_t cublasGemmStridedBatchedEx##suffix(                                                        \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n, Index k,           \
      const void* alpha, const void*, cudaDataType a_type, Index lda, long long int stride_a, const void*,            \
      cudaDataType b_type, Index ldb, long long int stride_b, const void* beta, void* C, cudaDataType c_type,         \
      Index ldc, long long int stride_c, Index count, cublasComputeType_t compute, cublasGemmAlgo_t) noexcept {       \
    PH_CALL(cublasGemmStridedBatchedEx##suffix, HostCost::Library);                                                   \
    const Gemm gemm = typed(PH_SIZES, a_type, b_type, c_type, compute);                                               \
    return multiply(handle, strided(gemm, stride_a, stride_b, stride_c, count), alpha, beta, C);                      \
  }                                                                                                                   \
  PH_EXPORT cublasStatus_t cublasGemmBatchedEx##suffix(                                                               \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n, Index k,           \
      const void* alpha, const void* const[], cudaDataType a_type, Index lda, const void* const[],                    \
      cudaDataType b_type, Index ldb, const void* beta, void* const C[], cudaDataType c_type, Index ldc, Index count, \
      cublasComputeType_t compute, cublasGemmAlgo_t) noexcept {                                                       \
    PH_CALL(cublasGemmBatchedEx##suffix, HostCost::Library);                                                          \
    const Gemm gemm = typed(PH_SIZES, a_type, b_type, c_type, compute);                                               \
    return multiply(handle, pointer_array(gemm, count), alpha, beta, C);                                              \
  }                                                                                                                   \
  PH_EXPORT cublasStatus_t cublasSgemmEx##suffix(                                                                     \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n, Index k,           \
      const float* alpha, const void*, cudaDataType a_type, Index lda, const void*, cudaDataType b_type, Index ldb,   \
      const float* beta, void* C, cudaDataType c_type, Index ldc) noexcept {                                          \
    PH_CALL(cublasSgemmEx##suffix, HostCost::Library);                                                                \
    return multiply(handle, typed(PH_SIZES, a_type, b_type, c_type, CUBLAS_COMPUTE_32F), alpha, beta, C);             \
  }

PH_GEMM_EX(, int)
PH_GEMM_EX(_64, std::int64_t)

}  // extern "C"
