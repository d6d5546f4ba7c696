#include "shim/cudnn/descriptor.h"

#include <cstring>

namespace ph::cudnn {

namespace {

const Attribute* find(const Descriptor& descriptor, int attribute) noexcept {
  const auto found = descriptor.attributes.find(attribute);
  return found == descriptor.attributes.end() ? nullptr : &found->second;
}

bool flag(const Descriptor& descriptor, int attribute) noexcept {
  const Attribute* found = find(descriptor, attribute);
  return found && !found->bytes.empty() && found->bytes[0] != 0;
}

}  // namespace

bool is_set(const Descriptor& descriptor, int attribute) noexcept { return find(descriptor, attribute) != nullptr; }

const std::vector<DescriptorRef>& children(const Descriptor& descriptor, int attribute) noexcept {
  static const std::vector<DescriptorRef> kNone;
  const Attribute* found = find(descriptor, attribute);
  return found ? found->descriptors : kNone;
}

DescriptorRef child(const Descriptor& descriptor, int attribute) noexcept {
  const auto& held = children(descriptor, attribute);
  return held.empty() ? nullptr : held.front();
}

std::vector<std::int64_t> integers(const Descriptor& descriptor, int attribute) {
  const Attribute* found = find(descriptor, attribute);
  if (!found) return {};
  std::vector<std::int64_t> values(found->bytes.size() / sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(values.data(), found->bytes.data(), values.size() * sizeof values[0]);
  return values;
}

int enumerator(const Descriptor& descriptor, int attribute) noexcept {
  const Attribute* found = find(descriptor, attribute);
  std::int32_t value = -1;
  if (found && found->bytes.size() >= sizeof value) std::memcpy(&value, found->bytes.data(), sizeof value);
  return value;
}

Tensor tensor_of(const Descriptor& descriptor) {
  const std::vector<std::int64_t> uid = integers(descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  return {
      .data_type = enumerator(descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE),
      .sizes = integers(descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS),
      .strides = integers(descriptor, CUDNN_ATTR_TENSOR_STRIDES),
      .uid = uid.empty() ? -1 : uid[0],
      .in_memory = !flag(descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && !flag(descriptor, CUDNN_ATTR_TENSOR_IS_BY_VALUE),
      .ragged = child(descriptor, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC) != nullptr};
}

Tensor tensor(const Descriptor& operation, int attribute) {
  const DescriptorRef descriptor = child(operation, attribute);
  return descriptor ? tensor_of(*descriptor) : Tensor{};
}

}  // namespace ph::cudnn
