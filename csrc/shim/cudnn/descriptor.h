// Descriptors of cuDNN's graph API: a type and attributes by number.
//
// A handle is one name for a descriptor's content; other descriptors that hold it, and plans made from it, keep
// the content alive after the handle is destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shim/core/handles.h"
#include "shim/cudnn/cudnn_types.h"

namespace ph::cudnn {

struct Descriptor;
using DescriptorRef = std::shared_ptr<Descriptor>;

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count = 0;
  std::vector<char> bytes;                 // of plain values
  std::vector<DescriptorRef> descriptors;  // of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes;
  // Of an execution plan, from its graph when it is finalized.
  std::string signature;
  std::int64_t workspace_bytes = 0;
};

// The descriptor that an attribute holds, or null.
DescriptorRef child(const Descriptor& descriptor, int attribute) noexcept;
std::vector<DescriptorRef> children(const Descriptor& descriptor, int attribute);
// Values of an attribute of 64-bit integers; empty if it was not set.
std::vector<std::int64_t> integers(const Descriptor& descriptor, int attribute);
// The first value of an attribute of enumerators or 32-bit integers, or -1.
int enumerator(const Descriptor& descriptor, int attribute) noexcept;

// What an operation graph does: its signature and the workspace it needs. False: a pattern that is not modelled.
bool describe(const Descriptor& graph, std::string& signature, std::int64_t& workspace_bytes);

}  // namespace ph::cudnn
