// The graph API. Every supported graph has one engine, whose plan is one kernel record.
#include <algorithm>
#include <cstring>

#include "shim/core/library.h"
#include "shim/core/values.h"
#include "shim/core/work.h"
#include "shim/cudnn/context.h"
#include "shim/cudnn/descriptor.h"

using namespace ph;
using namespace ph::cudnn;

namespace {

constinit HandleTable<DescriptorRef> descriptors(HandleTag::Descriptor);

DescriptorRef find(cudnnBackendDescriptor_t handle) noexcept {
  const DescriptorRef* found = descriptors.get(handle);
  return found ? *found : nullptr;
}

// Sizes of one element; the types not named here are enumerators.
std::size_t element_bytes(cudnnBackendAttributeType_t type) noexcept {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN: case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE: case CUDNN_TYPE_INT64: case CUDNN_TYPE_DOUBLE: case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_FRACTION: return 16;
    default: return 4;
  }
}

template <class T>
Attribute one(cudnnBackendAttributeType_t type, T value) {
  Attribute attribute{type, 1, std::vector<char>(sizeof value), {}};
  std::memcpy(attribute.bytes.data(), &value, sizeof value);
  return attribute;
}

Attribute integer(std::int64_t value) { return one(CUDNN_TYPE_INT64, value); }

DescriptorRef made(cudnnBackendDescriptorType_t type, int attribute, Attribute value) {
  auto descriptor = std::make_shared<Descriptor>(Descriptor{type, true, {}, {}, 0});
  descriptor->attributes.emplace(attribute, std::move(value));
  return descriptor;
}

Attribute holding(DescriptorRef descriptor) {
  return {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {std::move(descriptor)}};
}

// The one configuration of the one engine of a graph.
DescriptorRef configuration_of(const DescriptorRef& graph) {
  DescriptorRef engine = made(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, holding(graph));
  engine->attributes.emplace(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, integer(0));
  return made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, holding(engine));
}

DescriptorRef graph_of_configuration(const Descriptor& configuration) noexcept {
  const DescriptorRef engine = child(configuration, CUDNN_ATTR_ENGINECFG_ENGINE);
  return engine ? child(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH) : nullptr;
}

std::int64_t workspace_of(const DescriptorRef& graph) {
  std::string signature;
  std::int64_t bytes = 0;
  return graph && describe(*graph, signature, bytes) ? bytes : 0;
}

// Answers that the program did not put in: false if the attribute is none of them.
bool computed(const Descriptor& of, int attribute, Attribute& value) {
  switch (attribute) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const DescriptorRef graph = child(of, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      if (!graph) return false;
      value = holding(configuration_of(graph));
      return true;
    }
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT: value = integer(1); return true;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE: value = integer(workspace_of(graph_of_configuration(of))); return true;
    // The frontend drops a configuration that would use more than it allows.
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED: value = one(CUDNN_TYPE_INT32, std::int32_t{0}); return true;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: value = integer(of.workspace_bytes); return true;
    default: return false;
  }
}

// Descriptors are answered by giving their content to the handles that the program passes in.
void give(const Attribute& value, std::int64_t count, void* elements) {
  if (value.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::memcpy(elements, value.bytes.data(), static_cast<std::size_t>(count) * element_bytes(value.type));
    return;
  }
  const auto* handles = static_cast<cudnnBackendDescriptor_t*>(elements);
  for (std::int64_t i = 0; i < count; ++i) {
    if (DescriptorRef* target = descriptors.get(handles[i])) *target = value.descriptors[static_cast<std::size_t>(i)];
  }
}

cudnnStatus_t finalize_plan(Descriptor& plan) {
  const DescriptorRef configuration = child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const DescriptorRef graph = configuration ? graph_of_configuration(*configuration) : nullptr;
  if (!graph) return CUDNN_STATUS_BAD_PARAM;
  return describe(*graph, plan.signature, plan.workspace_bytes) ? CUDNN_STATUS_SUCCESS
                                                                : CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
}

// Which pointers are outputs is not looked up: none of them keeps a known value.
void forget_pointers(const Descriptor& pack) {
  for (const std::int64_t address : integers(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)) {
    const auto* pointer = reinterpret_cast<const void*>(address);
    if (is_device_pointer(pointer)) forget_at(pointer);
  }
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                     cudnnBackendDescriptor_t* descriptor) noexcept {
  PH_CALL(cudnnBackendCreateDescriptor);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = descriptors.create(std::make_shared<Descriptor>(Descriptor{type, false, {}, {}, 0}));
  return *descriptor ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) noexcept {
  PH_CALL(cudnnBackendDestroyDescriptor);
  return descriptors.destroy(descriptor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

PH_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) noexcept {
  PH_CALL(cudnnBackendFinalize);
  const DescriptorRef descriptor = find(handle);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM;
  if (descriptor->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const cudnnStatus_t status = finalize_plan(*descriptor);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  descriptor->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                                 cudnnBackendAttributeType_t type, int64_t count,
                                                 const void* elements) noexcept {
  PH_CALL(cudnnBackendSetAttribute);
  const DescriptorRef descriptor = find(handle);
  if (!descriptor || descriptor->finalized || count < 0) return CUDNN_STATUS_BAD_PARAM;
  if (count > 0 && !elements) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  Attribute value{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* handles = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (std::int64_t i = 0; i < count; ++i) value.descriptors.push_back(find(handles[i]));
    const bool complete = std::find(value.descriptors.begin(), value.descriptors.end(), nullptr) == value.descriptors.end();
    if (!complete) return CUDNN_STATUS_BAD_PARAM;
  } else {
    const auto* bytes = static_cast<const char*>(elements);
    value.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * element_bytes(type));
  }
  descriptor->attributes.insert_or_assign(name, std::move(value));
  return CUDNN_STATUS_SUCCESS;
}

// An attribute that nobody set has no elements: notes, knobs and the like of our one engine.
PH_EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const handle,
                                                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                                 int64_t requested, int64_t* count, void* elements) noexcept {
  PH_CALL(cudnnBackendGetAttribute);
  const DescriptorRef descriptor = find(handle);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM;
  Attribute value{type, 0, {}, {}};
  if (!computed(*descriptor, name, value)) {
    const auto found = descriptor->attributes.find(name);
    if (found != descriptor->attributes.end()) value = found->second;
  }
  if (value.type != type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  if (count) *count = value.count;
  if (elements) give(value, std::min<std::int64_t>(requested, value.count), elements);
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                            cudnnBackendDescriptor_t pack_handle) noexcept {
  PH_CALL(cudnnBackendExecute, HostCost::Launch);
  const Context* context = contexts.get(handle);
  const DescriptorRef plan = find(plan_handle);
  const DescriptorRef pack = find(pack_handle);
  if (!context) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!plan || !pack) return CUDNN_STATUS_BAD_PARAM;
  if (!plan->finalized || !pack->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUDNN_STATUS_EXECUTION_FAILED;

  if (any_known()) forget_pointers(*pack);
  emit_kernel(stream, plan->signature);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
