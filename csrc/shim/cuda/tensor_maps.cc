// Tensor maps: descriptors of what the bulk tensor copies of Hopper and later move.
//
// What is in a map is nobody's business but the hardware's, so ours hold what we need. The address comes first, where
// the launch of a kernel that gets the map looks for what may be written. Source of all limits: cuda.h.
#include <cstdint>
#include <cstring>

#include "shim/cuda/driver.h"

using namespace ph;
using namespace ph::driver;

namespace {

struct Map {
  const void* address;
  std::uint64_t mark;
  std::uint64_t alignment_bytes;  // of the address
};
constexpr std::uint64_t kMark = 0x70616d726f736e65;  // any number that is no address

// What all ways of describing a tensor share.
struct Tensor {
  CUtensorMapDataType type;
  cuuint32_t rank;
  const void* address;
  const cuuint64_t* dims;
  const cuuint64_t* strides;
  const cuuint32_t* steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;
constexpr std::uint64_t kStrideLimitBytes = std::uint64_t{1} << 40;

bool is_packed(CUtensorMapDataType type) noexcept { return type >= CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; }
bool is_packed_by_16(CUtensorMapDataType type) noexcept {
  return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B || type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

bool is_floating(CUtensorMapDataType type) noexcept {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && !is_packed(type);
}

// Of one element; of the packed types, of what 16 elements take, by 16.
double element_bytes(CUtensorMapDataType type) noexcept {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B: return 0.5;
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:
    case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B: return 1;
    default: return 4;
  }
}

std::uint64_t alignment_bytes(const Tensor& tensor) noexcept {
  return tensor.interleave == CU_TENSOR_MAP_INTERLEAVE_32B || is_packed_by_16(tensor.type) ? 32 : 16;
}

bool is_aligned(const void* address, std::uint64_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

// Programs may pass any number; as a value of its enumeration it must not be read.
bool are_known_values(const Tensor& tensor) noexcept {
  const auto within = [](const auto& value, auto last) {
    unsigned number = 0;
    static_assert(sizeof value == sizeof number);
    std::memcpy(&number, &value, sizeof number);
    return number <= static_cast<unsigned>(last);
  };
  return within(tensor.type, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B) &&
         within(tensor.interleave, CU_TENSOR_MAP_INTERLEAVE_32B) &&
         within(tensor.swizzle, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) &&
         within(tensor.promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B) &&
         within(tensor.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
}

bool is_shape(const Tensor& tensor) noexcept {
  const std::uint64_t dim_step = is_packed_by_16(tensor.type) ? 128 : is_packed(tensor.type) ? 2 : 1;
  if (tensor.dims[0] % dim_step != 0) return false;
  for (cuuint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.dims[i] == 0 || tensor.dims[i] > kMostElements) return false;
    if (tensor.steps[i] == 0 || tensor.steps[i] > 8) return false;
  }
  for (cuuint32_t i = 0; i + 1 < tensor.rank; ++i) {
    if (tensor.strides[i] % alignment_bytes(tensor) != 0 || tensor.strides[i] >= kStrideLimitBytes) return false;
  }
  return true;
}

// `inner`: elements of the innermost dimension that one copy moves.
bool is_swizzled_right(const Tensor& tensor, cuuint32_t inner) noexcept {
  if (tensor.interleave == CU_TENSOR_MAP_INTERLEAVE_32B) return tensor.swizzle == CU_TENSOR_MAP_SWIZZLE_32B;
  if (tensor.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || tensor.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE) return true;
  double span_bytes = 128;
  if (tensor.swizzle == CU_TENSOR_MAP_SWIZZLE_32B) span_bytes = 32;
  if (tensor.swizzle == CU_TENSOR_MAP_SWIZZLE_64B) span_bytes = 64;
  return inner * element_bytes(tensor.type) <= span_bytes;
}

bool is_tensor(const Tensor& tensor, cuuint32_t least_rank) noexcept {
  if (!are_known_values(tensor) || tensor.rank < least_rank || tensor.rank > 5) return false;
  if (tensor.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && tensor.rank < 3) return false;
  if (!tensor.dims || !tensor.steps || (!tensor.strides && tensor.rank > 1)) return false;
  if (!is_aligned(tensor.address, alignment_bytes(tensor))) return false;
  if (tensor.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !is_floating(tensor.type)) return false;
  if (tensor.type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B && tensor.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) {
    return false;
  }
  return is_shape(tensor);
}

bool is_box(const Tensor& tensor, const cuuint32_t* box) noexcept {
  if (!box) return false;
  for (cuuint32_t i = 0; i < tensor.rank; ++i) {
    if (box[i] == 0 || box[i] > 256) return false;
  }
  if (is_packed_by_16(tensor.type) && box[0] != 128) return false;
  const double inner_bytes = box[0] * element_bytes(tensor.type);
  const bool is_whole = static_cast<std::uint64_t>(2 * inner_bytes) % 32 == 0;
  return (tensor.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || is_whole) && is_swizzled_right(tensor, box[0]);
}

// Corners of a box of pixels, whose precision depends on the number of dimensions beside image and channel.
bool are_corners(cuuint32_t rank, const int* lower, const int* upper) noexcept {
  if (!lower || !upper) return false;
  const int limit = rank == 3 ? 32768 : rank == 4 ? 128 : 16;
  for (cuuint32_t i = 0; i + 2 < rank; ++i) {
    if (lower[i] < -limit || lower[i] >= limit || upper[i] < -limit || upper[i] >= limit) return false;
  }
  return true;
}

bool are_pixels(const Tensor& tensor, cuuint32_t channels, cuuint32_t pixels) noexcept {
  if (channels == 0 || channels > 256 || pixels == 0 || pixels > 1024) return false;
  if (is_packed_by_16(tensor.type) && channels != 128) return false;
  return is_swizzled_right(tensor, channels);
}

// Whether this thread's device has such copies; that an older one says NOT_SUPPORTED is assumed.
CUresult check_device(int least_major) noexcept {
  if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  return config().number("gpu.major") >= least_major ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult write_map(CUtensorMap* out, const Tensor& tensor, bool is_right) noexcept {
  if (!out || !is_aligned(out, 64) || !is_right) return CUDA_ERROR_INVALID_VALUE;
  const Map map{tensor.address, kMark, alignment_bytes(tensor)};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                          const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                          const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                          CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                          CUtensorMapFloatOOBfill fill) noexcept {
  PH_CALL(cuTensorMapEncodeTiled);
  if (const CUresult result = check_device(9); result != CUDA_SUCCESS) return result;
  const Tensor tensor{type, rank, address, dims, strides, steps, interleave, swizzle, promotion, fill};
  return write_map(map, tensor, is_tensor(tensor, 1) && is_box(tensor, box));
}

PH_EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                           const cuuint64_t* dims, const cuuint64_t* strides, const int* lower,
                                           const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                           const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                           CUtensorMapFloatOOBfill fill) noexcept {
  PH_CALL(cuTensorMapEncodeIm2col);
  if (const CUresult result = check_device(9); result != CUDA_SUCCESS) return result;
  const Tensor tensor{type, rank, address, dims, strides, steps, interleave, swizzle, promotion, fill};
  const bool is_right = is_tensor(tensor, 3) && are_corners(rank, lower, upper) && are_pixels(tensor, channels, pixels);
  return write_map(map, tensor, is_right);
}

// The wide form is Blackwell's: it has one dimension of pixels, and only swizzled layouts.
PH_EXPORT CUresult cuTensorMapEncodeIm2colWide(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                               void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                               int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
                                               const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                               CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                               CUtensorMapL2promotion promotion,
                                               CUtensorMapFloatOOBfill fill) noexcept {
  PH_CALL(cuTensorMapEncodeIm2colWide);
  if (const CUresult result = check_device(10); result != CUDA_SUCCESS) return result;
  const Tensor tensor{type, rank, address, dims, strides, steps, interleave, swizzle, promotion, fill};
  const bool is_swizzle = swizzle == CU_TENSOR_MAP_SWIZZLE_64B || swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
                          swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B;
  const bool is_mode = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W || mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
  return write_map(map, tensor,
                   is_mode && is_swizzle && is_tensor(tensor, 3) && are_corners(3, &lower, &upper) &&
                       are_pixels(tensor, channels, pixels));
}

PH_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) noexcept {
  PH_CALL(cuTensorMapReplaceAddress);
  if (const CUresult result = check_device(9); result != CUDA_SUCCESS) return result;
  if (!map || !is_aligned(map, 64)) return CUDA_ERROR_INVALID_VALUE;
  Map kept;
  std::memcpy(&kept, map, sizeof kept);
  if (kept.mark != kMark || !is_aligned(address, kept.alignment_bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &address, sizeof address);
  return CUDA_SUCCESS;
}

}  // extern "C"
