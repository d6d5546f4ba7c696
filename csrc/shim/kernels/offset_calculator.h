// How PyTorch's kernels find an element: OffsetCalculator, sizes and strides of up to 25 dimensions.
//
// Source: aten/src/ATen/cuda/detail/OffsetCalculator.cuh (25 dimensions on CUDA) and IntegerDivider.cuh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ph {

inline constexpr std::size_t kMostDimensions = 25;
// What a product or a sum of sizes is at most: some of these may be added up. No memory has so many bytes.
inline constexpr std::size_t kUncountable = std::size_t{1} << 60;

inline constexpr std::size_t counted_product(std::size_t a, std::size_t b) noexcept {
  return b != 0 && a > kUncountable / b ? kUncountable : a * b;
}

struct Dimensions {
  std::vector<std::uint32_t> sizes;                 // the fastest first
  std::vector<std::vector<std::uint32_t>> strides;  // bytes, per tensor and dimension

  std::size_t elements() const noexcept {
    std::size_t product = 1;
    for (const std::uint32_t size : sizes) product = counted_product(product, size);
    return product;
  }
  std::size_t offset(std::size_t tensor, std::size_t index) const noexcept {
    std::size_t bytes = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      bytes += index % sizes[d] * strides[tensor][d];
      index /= sizes[d];
    }
    return bytes;
  }
  // How many different ones the tensor has among them: those along a stride of 0 are one. Of windows that overlap no more
  // than there are from the first to the last.
  std::size_t distinct_elements(std::size_t tensor) const noexcept {
    std::size_t product = 1;
    std::uint32_t least_stride = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::uint32_t stride = strides[tensor][d];
      if (stride == 0 || sizes[d] == 1) continue;
      product = counted_product(product, sizes[d]);
      least_stride = least_stride == 0 ? stride : std::min(least_stride, stride);
    }
    return least_stride == 0 ? 1 : std::min(product, extent(tensor) / least_stride + 1);
  }
  // How many sectors of memory, of 32 bytes each, the first warp touches of the tensor: of neighbours 4 bytes wide four,
  // of elements far from each other one for each thread. The memory has to be aligned to sectors.
  std::size_t warp_sectors(std::size_t tensor) const noexcept {
    constexpr std::size_t kThreads = 32, kSectorBytes = 32;
    std::size_t seen[kThreads];
    std::size_t count = 0;
    std::uint32_t place[kMostDimensions] = {};
    std::size_t bytes = 0;
    const std::size_t threads = std::min(kThreads, elements());
    for (std::size_t thread = 0; thread < threads; ++thread) {
      const std::size_t sector = bytes / kSectorBytes;
      if (std::find(seen, seen + count, sector) == seen + count) seen[count++] = sector;
      for (std::size_t d = 0; d < sizes.size(); ++d) {  // to the next element
        bytes += strides[tensor][d];
        if (++place[d] < sizes[d]) break;
        bytes -= std::size_t{sizes[d]} * strides[tensor][d];
        place[d] = 0;
      }
    }
    return count;
  }
  // Offset of the last element.
  std::size_t extent(std::size_t tensor) const noexcept {
    std::size_t bytes = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      bytes = std::min(bytes + counted_product(sizes[d] - std::size_t{1}, strides[tensor][d]), kUncountable);
    }
    return bytes;
  }
};

inline constexpr std::size_t calculator_bytes(std::size_t tensors) noexcept {
  return 4 + kMostDimensions * (12 + 4 * tensors);
}

// An int, 25 dividers (divisor, magic, shift), 25 strides per tensor. False: not such a structure.
inline bool read_calculator(const unsigned char* from, std::size_t tensors, Dimensions& dimensions) {
  const auto word = [from](std::size_t offset) {
    std::uint32_t value;
    std::memcpy(&value, from + offset, sizeof value);
    return value;
  };
  const std::uint32_t count = word(0);
  if (count > kMostDimensions) return false;
  dimensions.strides.resize(tensors);
  for (std::size_t d = 0; d < count; ++d) {
    const std::uint32_t size = word(4 + 12 * d);
    if (size == 0) return false;
    dimensions.sizes.push_back(size);
    for (std::size_t t = 0; t < tensors; ++t) {
      dimensions.strides[t].push_back(word(4 + 12 * kMostDimensions + 4 * (d * tensors + t)));
    }
  }
  return true;
}

}  // namespace ph
