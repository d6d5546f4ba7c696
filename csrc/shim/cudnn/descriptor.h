// Descriptors of cuDNN's graph API: a type and attributes by number.
//
// A handle is one name for a descriptor's content; other descriptors that hold it, and plans made from it, keep
// the content alive after the handle is destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "shim/cudnn/graph.h"
#include "shim/cudnn/tensor.h"

namespace ph::cudnn {

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count = 0;
  std::vector<char> bytes;                 // of plain values
  std::vector<DescriptorRef> descriptors;  // of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

struct Descriptor {
  explicit Descriptor(cudnnBackendDescriptorType_t of_type) : type(of_type) {}

  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes;
  // Of an execution plan, since it was finalized.
  GraphWork work;
  std::atomic<std::uint32_t> signature_id{0};  // 0: not announced yet
};

// The descriptor that an attribute holds, or null.
DescriptorRef child(const Descriptor& descriptor, int attribute) noexcept;
const std::vector<DescriptorRef>& children(const Descriptor& descriptor, int attribute) noexcept;
// Values of an attribute of 64-bit integers or pointers; empty if it was not set.
std::vector<std::int64_t> integers(const Descriptor& descriptor, int attribute);
// The first value of an attribute of enumerators or 32-bit integers, or -1.
int enumerator(const Descriptor& descriptor, int attribute) noexcept;
bool is_set(const Descriptor& descriptor, int attribute) noexcept;

// What a tensor descriptor describes.
Tensor tensor_of(const Descriptor& descriptor);
// The tensor that an attribute of an operation holds; without sizes if there is none.
Tensor tensor(const Descriptor& operation, int attribute);

}  // namespace ph::cudnn
