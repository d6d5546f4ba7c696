// The one record of a matrix product, shared by cuBLAS and cuBLASLt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <library_types.h>

#include "shim/core/api.h"
#include "shim/core/device.h"

namespace ph {

enum class GemmLibrary : std::uint8_t { Cublas, CublasLt };
enum class GemmBatch : std::uint8_t { None, Strided, PointerArray };

// What identifies a product's work; column-major, as the library sees it. Compared and hashed as words, so it
// has no padding.
struct Gemm {
  std::uint64_t m, n, k;
  std::int64_t lda, ldb, ldc, ldd;
  std::int64_t stride_a, stride_b, stride_c, stride_d;  // elements, 0 unless batch is Strided
  std::uint32_t batch_count;
  std::uint32_t epilogue;      // cublasLtEpilogue_t; 0 counts as default
  std::uint16_t a, b, c, d;    // cudaDataType_t
  std::uint16_t compute;       // cublasComputeType_t
  std::uint8_t transa, transb; // cublasOperation_t
  std::uint8_t order_a, order_b, order_c, order_d;  // cublasLtOrder_t
  std::uint8_t scale_a, scale_b;  // cublasLtMatmulMatrixScale_t plus one, 0: no scale given
  GemmLibrary library;
  GemmBatch batch;
  bool reads_c;                // beta is not zero
  bool tf32;                   // single precision inputs may be rounded to TF32
  std::uint16_t zero;          // fills the last word
};
static_assert(std::has_unique_object_representations_v<Gemm> && sizeof(Gemm) % 8 == 0);

// Records the product on `stream`; `d` is its output (or the array of pointers to it), of which nothing is known afterwards.
PH_EXPORT void emit_gemm(const Gemm& gemm, StreamRef stream, const void* d) noexcept;

// The signature's name of a type, "bf16"; "?" for one that no product has.
PH_EXPORT const char* number_name(std::uint32_t data_type) noexcept;
PH_EXPORT std::size_t number_bytes(std::uint32_t data_type) noexcept;

}  // namespace ph
