#include "shim/cublas/product.h"

#include <algorithm>
#include <cstring>

#include "shim/cublas/context.h"

namespace ph::cublas {

namespace {

bool is_complex(const Gemm& gemm) noexcept { return gemm.a == CUDA_C_32F || gemm.a == CUDA_C_64F; }

std::size_t scalar_bytes(const Gemm& gemm) noexcept {
  std::size_t bytes = sizeof(float);
  switch (gemm.compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC: bytes = 2; break;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT: bytes = sizeof(double); break;
    default: break;
  }
  return is_complex(gemm) ? 2 * bytes : bytes;
}

// A scalar in device memory has no value here; C is then taken to be read.
bool is_zero(const Gemm& gemm, const void* scalar, cublasPointerMode_t mode) noexcept {
  if (mode == CUBLAS_POINTER_MODE_DEVICE) return false;
  constexpr unsigned char kZero[16] = {};
  return std::memcmp(scalar, kZero, scalar_bytes(gemm)) == 0;
}

bool sizes_fit(const Gemm& gemm) noexcept {
  const auto m = static_cast<std::int64_t>(gemm.m), n = static_cast<std::int64_t>(gemm.n),
             k = static_cast<std::int64_t>(gemm.k);
  if (m < 0 || n < 0 || k < 0 || static_cast<std::int32_t>(gemm.batch_count) < 0) return false;
  const std::int64_t rows_a = gemm.transa == CUBLAS_OP_N ? m : k;
  const std::int64_t rows_b = gemm.transb == CUBLAS_OP_N ? k : n;
  return gemm.lda >= std::max<std::int64_t>(1, rows_a) && gemm.ldb >= std::max<std::int64_t>(1, rows_b) &&
         gemm.ldd >= std::max<std::int64_t>(1, m);
}

}  // namespace

Gemm product(cublasOperation_t transa, cublasOperation_t transb, std::int64_t m, std::int64_t n, std::int64_t k,
             std::int64_t lda, std::int64_t ldb, std::int64_t ldc) noexcept {
  Gemm gemm{};
  gemm.m = static_cast<std::uint64_t>(m);
  gemm.n = static_cast<std::uint64_t>(n);
  gemm.k = static_cast<std::uint64_t>(k);
  gemm.lda = lda;
  gemm.ldb = ldb;
  gemm.ldc = gemm.ldd = ldc;
  gemm.batch_count = 1;
  gemm.transa = static_cast<std::uint8_t>(transa);
  gemm.transb = static_cast<std::uint8_t>(transb);
  gemm.library = GemmLibrary::Cublas;
  return gemm;
}

cublasStatus_t multiply(cublasHandle_t handle, Gemm gemm, const void* alpha, const void* beta, const void* c) noexcept {
  const Context* context = contexts.get(handle);
  if (!context) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!sizes_fit(gemm) || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch_count == 0) return CUBLAS_STATUS_SUCCESS;

  gemm.reads_c = !is_zero(gemm, beta, context->pointer_mode);
  gemm.tf32 = (context->math_mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == CUBLAS_TF32_TENSOR_OP_MATH;
  emit_gemm(gemm, stream, c);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace ph::cublas
