// One way in for every matrix product of cuBLAS.
#pragma once

#include "shim/cublas/cublas_types.h"
#include "shim/launch/gemm.h"

namespace ph::cublas {

// Sizes and leading dimensions; the types, the compute type and the batch are filled in by the caller.
Gemm product(cublasOperation_t transa, cublasOperation_t transb, std::int64_t m, std::int64_t n, std::int64_t k,
             std::int64_t lda, std::int64_t ldb, std::int64_t ldc) noexcept;

// Checks the arguments, decides whether C is read, and records. `c` may be an array of pointers, as `gemm` says.
cublasStatus_t multiply(cublasHandle_t handle, Gemm gemm, const void* alpha, const void* beta, const void* c) noexcept;

}  // namespace ph::cublas
