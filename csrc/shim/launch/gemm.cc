#include "shim/launch/gemm.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "shim/channel/rank.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

namespace ph {

namespace {

constexpr std::size_t kWords = sizeof(Gemm) / sizeof(std::uint64_t);

struct GemmHash {
  std::size_t operator()(const Gemm& gemm) const noexcept {
    std::uint64_t words[kWords];
    std::memcpy(words, &gemm, sizeof gemm);
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: spreads neighbouring sizes
      hash ^= hash >> 32;
    }
    return hash;
  }
};

struct GemmEqual {
  bool operator()(const Gemm& left, const Gemm& right) const noexcept {
    return std::memcmp(&left, &right, sizeof left) == 0;
  }
};

const char* epilogue_name(std::uint32_t epilogue) noexcept {
  switch (epilogue) {
    case 0:
    case 1: return "none";
    case 2: return "relu";
    case 2 | 128: return "relu_aux";
    case 4: return "bias";
    case 2 | 4: return "relu_bias";
    case 2 | 128 | 4: return "relu_aux_bias";
    case 8 | 128: return "drelu";
    case 8 | 128 | 16: return "drelu_bgrad";
    case 32: return "gelu";
    case 32 | 128: return "gelu_aux";
    case 32 | 4: return "gelu_bias";
    case 32 | 128 | 4: return "gelu_aux_bias";
    case 64 | 128: return "dgelu";
    case 64 | 128 | 16: return "dgelu_bgrad";
    case 256: return "bgrada";
    case 512: return "bgradb";
    default: return "?";
  }
}

// Values of cublasComputeType_t; the pedantic variants use the same units.
const char* compute_name(const Gemm& gemm) noexcept {
  switch (gemm.compute) {
    case 64:
    case 65: return "f16";
    case 68: return gemm.tf32 && gemm.a == CUDA_R_32F ? "tf32" : "f32";
    case 69: return "f32";
    case 70:
    case 71: return "f64";
    case 72:
    case 73: return "i32";
    case 74: return "f32_fast_f16";
    case 75: return "f32_fast_bf16";
    case 77: return "tf32";
    case 78: return "f32_bf16x9";
    case 79: return "f64_fixed";
    default: return "?";
  }
}

// Values of cublasLtMatmulMatrixScale_t, plus one.
const char* scale_name(std::uint8_t scale) noexcept {
  constexpr const char* kNames[] = {"none",  "tensor", "vec16_ue4m3",  "vec32_ue8m0",
                                    "outer", "vec128", "block128x128", "batch"};
  return scale < std::size(kNames) ? kNames[scale] : "?";
}

payloads::Gemm describe(const Gemm& gemm) {
  constexpr const char* kTranspositions[] = {"N", "T", "C", "C"};
  payloads::Gemm told{
      .library = gemm.library == GemmLibrary::Cublas ? "cublas" : "cublasLt",
      .m = static_cast<std::int64_t>(gemm.m),
      .n = static_cast<std::int64_t>(gemm.n),
      .k = static_cast<std::int64_t>(gemm.k),
      .batch = gemm.batch_count,
      .transa = kTranspositions[gemm.transa & 3],
      .transb = kTranspositions[gemm.transb & 3],
      .lda = gemm.lda,
      .ldb = gemm.ldb,
      .ldc = gemm.ldd,
      .a = number_name(gemm.a),
      .b = number_name(gemm.b),
      .c = number_name(gemm.c),
      .d = number_name(gemm.d),
      .compute = compute_name(gemm),
      .epilogue = epilogue_name(gemm.epilogue),
      .beta = gemm.reads_c,
  };
  // Only what departs from a plain column-major product without scales: most signatures have none of it.
  if (gemm.order_a | gemm.order_b | gemm.order_c | gemm.order_d)
    told.orders = {gemm.order_a, gemm.order_b, gemm.order_c, gemm.order_d};
  if (gemm.batch == GemmBatch::Strided) told.strides = {gemm.stride_a, gemm.stride_b, gemm.stride_d};
  if (gemm.batch == GemmBatch::PointerArray) told.pointer_array = true;
  if (gemm.scale_a | gemm.scale_b) {
    told.scale_a = scale_name(gemm.scale_a);
    told.scale_b = scale_name(gemm.scale_b);
  }
  return told;
}

// The program may still multiply while static destructors run, so the map is never destroyed.
std::uint32_t signature_of(const Gemm& gemm) {
  static std::mutex mutex;
  static auto& ids = *new std::unordered_map<Gemm, std::uint32_t, GemmHash, GemmEqual>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = ids.try_emplace(gemm, 0);
  if (is_new) entry->second = intern_signature(payload_text(describe(gemm)));
  return entry->second;
}

}  // namespace

const char* number_name(std::uint32_t data_type) noexcept {
  switch (data_type) {
    case CUDA_R_64F: return "f64";
    case CUDA_R_32F: return "f32";
    case CUDA_R_16F: return "f16";
    case CUDA_R_16BF: return "bf16";
    case CUDA_C_64F: return "c128";
    case CUDA_C_32F: return "c64";
    case CUDA_R_8F_E4M3: return "f8e4m3";
    case CUDA_R_8F_E5M2: return "f8e5m2";
    case CUDA_R_4F_E2M1: return "f4e2m1";
    case CUDA_R_8I: return "i8";
    case CUDA_R_8U: return "u8";
    case CUDA_R_32I: return "i32";
    default: return "?";
  }
}

std::size_t number_bytes(std::uint32_t data_type) noexcept {
  switch (data_type) {
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
    case CUDA_R_4F_E2M1:
    case CUDA_R_8I:
    case CUDA_R_8U: return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    default: return 4;
  }
}

void emit_gemm(const Gemm& gemm, StreamRef stream, const void* d) noexcept {
  if (!attached()) return;  // a signature met here would never be announced
  emit_kernel(stream, signature_of(gemm));
  if (gemm.batch == GemmBatch::PointerArray) forget_pointed(d, gemm.batch_count);
  else forget_reached({d});
}

}  // namespace ph
