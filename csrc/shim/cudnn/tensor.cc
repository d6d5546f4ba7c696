#include "shim/cudnn/tensor.h"

#include <algorithm>

namespace ph::cudnn {

namespace {

// Whether strides grow without gaps in this order of dimensions, innermost first; those of size 1 do not matter.
bool is_dense(const Tensor& tensor, const std::vector<std::size_t>& order) {
  std::int64_t expected = 1;
  for (const std::size_t dimension : order) {
    if (tensor.sizes[dimension] != 1 && tensor.strides[dimension] != expected) return false;
    expected *= tensor.sizes[dimension];
  }
  return true;
}

}  // namespace

std::int64_t product_of(const Sizes& sizes, std::size_t from) noexcept {
  std::int64_t product = 1;
  for (std::size_t i = from; i < sizes.size(); ++i) product *= sizes[i];
  return product;
}

std::int64_t Tensor::elements() const noexcept { return product_of(sizes, 0); }

std::int64_t Tensor::bytes() const noexcept { return elements() * type_bytes(data_type); }

std::int64_t Tensor::span_bytes() const noexcept {
  if (strides.size() != sizes.size() || elements() == 0) return bytes();
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  return (last + 1) * type_bytes(data_type);
}

const char* Tensor::layout() const noexcept {
  const std::size_t rank = sizes.size();
  if (rank < 3 || strides.size() != rank) return "strided";
  std::vector<std::size_t> order;
  for (std::size_t i = rank; i-- > 0;) order.push_back(i);
  if (is_dense(*this, order)) return "contiguous";
  std::rotate(order.begin(), order.end() - 2, order.end() - 1);  // the channels come first
  return is_dense(*this, order) ? "channels_last" : "strided";
}

const char* type_name(int data_type) noexcept {
  switch (data_type) {
    case CUDNN_DATA_FLOAT: return "f32";
    case CUDNN_DATA_DOUBLE: return "f64";
    case CUDNN_DATA_HALF: return "f16";
    case CUDNN_DATA_BFLOAT16: return "bf16";
    case CUDNN_DATA_FP8_E4M3: return "f8e4m3";
    case CUDNN_DATA_FP8_E5M2: return "f8e5m2";
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN: return "i8";
    case CUDNN_DATA_INT32: return "i32";
    default: return "?";
  }
}

std::int64_t type_bytes(int data_type) noexcept {
  switch (data_type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64: return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_FP8_E4M3:
    case CUDNN_DATA_FP8_E5M2:
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN: return 1;
    default: return 4;
  }
}

}  // namespace ph::cudnn
