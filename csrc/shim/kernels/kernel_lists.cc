#include "shim/kernels/kernel_lists.h"

#include <algorithm>
#include <utility>

#include "shim/kernels/structure_bytes.h"

namespace ph {
namespace {

using Kind = SizeReader::Kind;

// Source: aten/src/ATen/native/cuda/MultiTensorApply.cuh. Builds for CUDA 13 have lists for 32 KB of kernel arguments
// from PyTorch 2.12 on (https://github.com/pytorch/pytorch/pull/178641; checked in the disassembly of 2.15), others for
// 4 KB. Which it is cannot be told from the list itself: the unused part holds whatever was there.
struct ListLimits {
  std::uint32_t tensors[5];               // most, by depth (number of lists)
  std::uint32_t tensors_with_scalars[5];  // most, with a scalar per tensor
  std::uint32_t blocks;
  std::uint32_t index_bytes;  // of a block's tensor index
};
constexpr ListLimits kSmallLists{{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1};
constexpr ListLimits kLargeLists{{770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240, 2};

const ListLimits& limits(const SizeReader& reader) noexcept { return reader.large_list ? kLargeLists : kSmallLists; }

constexpr std::int64_t kChunkElements = 65536;

// Where the parts of a list are.
struct TensorList {
  std::size_t tensors = 0;  // room for so many; 0: not a list that we know
  std::size_t numel = 0;
  std::size_t owner = 0;
  std::size_t chunk = 0;
};

TensorList tensor_list(const SizeReader& reader, const LaunchShape& shape) noexcept {
  const ListLimits& most = limits(reader);
  if (reader.count < 1 || reader.count > 5 || shape.grid[0] > most.blocks) return {};
  const std::size_t tensors_with_scalars = most.tensors_with_scalars[reader.count - 1];
  const std::size_t tensors = reader.with_scalars ? tensors_with_scalars : most.tensors[reader.count - 1];
  const std::size_t numel = sizeof(void*) * reader.count * tensors;
  const std::size_t step = reader.width_bytes * (reader.with_scalars ? tensors : tensors_with_scalars);
  const std::size_t owner = numel + 8 * tensors + step;
  return {tensors, numel, owner, align_up(owner + std::size_t{most.index_bytes} * most.blocks, 4)};
}

// The tensor that a block works on.
std::size_t owner_of(std::size_t block, const SizeReader& reader, const TensorList& at_list,
                     const void* list) noexcept {
  if (limits(reader).index_bytes == 1) return at<std::uint8_t>(list, at_list.owner + block);
  return at<std::uint16_t>(list, at_list.owner + 2 * block);
}

// Elements that the launch's blocks work on: a block takes one chunk of one tensor, the last chunk may be short.
std::int64_t tensor_list_elements(const SizeReader& reader, const LaunchShape& shape, const void* list) noexcept {
  const TensorList at_list = tensor_list(reader, shape);
  if (at_list.tensors == 0) return kUnknownSize;
  std::int64_t elements = 0;
  for (std::size_t block = 0; block < shape.grid[0]; ++block) {
    const std::size_t tensor = owner_of(block, reader, at_list, list);
    if (tensor >= at_list.tensors) return kUnknownSize;
    const std::int64_t first = kChunkElements * at<std::int32_t>(list, at_list.chunk + 4 * block);
    const auto of_tensor = at<std::int64_t>(list, at_list.numel + 8 * tensor);
    if (first < 0 || !may_be_elements(of_tensor) || first >= of_tensor) return kUnknownSize;
    const std::int64_t left = of_tensor - first;
    elements += left < kChunkElements ? left : kChunkElements;
  }
  return elements;
}

// The same of lists that are different: of a list that is given twice once. kUnknownSize: all are.
std::int64_t different_elements(const SizeReader& reader, const LaunchShape& shape, const void* list) {
  const TensorList at_list = tensor_list(reader, shape);
  std::int64_t elements = 0;
  bool is_repeated = false;
  std::vector<const void*> seen;
  for (std::size_t block = 0; block < shape.grid[0]; ++block) {
    const std::size_t tensor = owner_of(block, reader, at_list, list);
    const std::int64_t first = kChunkElements * at<std::int32_t>(list, at_list.chunk + 4 * block);
    const std::int64_t left = at<std::int64_t>(list, at_list.numel + 8 * tensor) - first;
    seen.clear();
    for (std::size_t depth = 0; depth < reader.count; ++depth) {
      const auto* address = at<const void*>(list, sizeof(void*) * (depth * at_list.tensors + tensor));
      if (std::find(seen.begin(), seen.end(), address) == seen.end()) seen.push_back(address);
    }
    is_repeated |= seen.size() < reader.count;
    elements += std::min(left, kChunkElements) * static_cast<std::int64_t>(seen.size());
  }
  return is_repeated ? elements : kUnknownSize;
}

}  // namespace

SizeReader plan_tensor_list(std::string_view type, std::uint16_t index, bool large) {
  SizeReader reader{.kind = Kind::TensorList, .parameter = index, .large_list = large};
  if (type.find("ScalarListMetadata<") == std::string_view::npos) {
    reader.count = template_number(type, "TensorListMetadata<", 0);
    // The fused optimizers carry one pointer to a step count per tensor.
    if (type.find("FusedOptimizer") != std::string_view::npos) reader.width_bytes = 8;
    return reader;
  }
  // <type of the scalar, depth>. Complex double holds fewer tensors and is left out.
  reader.with_scalars = true;
  if (type.find("<float") != std::string_view::npos) reader.width_bytes = 4;
  if (type.find("<double") != std::string_view::npos || type.find("<long") != std::string_view::npos)
    reader.width_bytes = 8;
  if (reader.width_bytes != 0) reader.count = template_number(type, "ScalarListMetadata<", 1);
  return reader;
}

void read_tensor_list(const SizeReader& reader, const LaunchShape& shape, const void* list, std::int64_t* out) {
  out[0] = tensor_list_elements(reader, shape, list);
  out[1] = out[0] == kUnknownSize ? kUnknownSize : different_elements(reader, shape, list);
}

std::vector<const void*> listed_tensors(const SizeReader& reader, const LaunchShape& shape, const void* argument) {
  std::vector<const void*> listed;
  if (reader.kind == Kind::Addresses) {
    // Source: aten/src/ATen/native/cuda/ForeachReduceOp.cu, lpnorm_cleanup: a block writes one tensor of one element.
    for (std::size_t block = 0; block < std::min(shape.grid[0], limits(reader).tensors[0]); ++block) {
      listed.push_back(at<const void*>(argument, sizeof(void*) * block));
    }
    return listed;
  }
  if (reader.kind == Kind::Concatenation) {
    // The grid's y is the number of inputs. What lies behind them in the list was never set.
    if (shape.grid[1] > reader.count) return listed;
    for (std::size_t input = 0; input < shape.grid[1]; ++input) {
      listed.push_back(at<const void*>(argument, sizeof(void*) * input));
    }
    return listed;
  }
  if (reader.kind != Kind::TensorList || tensor_list_elements(reader, shape, argument) == kUnknownSize) return listed;
  const TensorList list = tensor_list(reader, shape);
  std::size_t before = list.tensors;  // the blocks of a tensor stand together
  for (std::size_t block = 0; block < shape.grid[0]; ++block) {
    const std::size_t tensor = owner_of(block, reader, list, argument);
    if (std::exchange(before, tensor) == tensor) continue;
    for (std::size_t depth = 0; depth < reader.count; ++depth) {
      listed.push_back(at<const void*>(argument, sizeof(void*) * (depth * list.tensors + tensor)));
    }
  }
  return listed;
}

}  // namespace ph
