// The graph API. A plan is one kernel record, also where the library launches several kernels.
#include <algorithm>
#include <cstring>

#include "shim/calls/library.h"
#include "shim/channel/rank.h"
#include "shim/cudnn/context.h"
#include "shim/cudnn/descriptor.h"
#include "shim/launch/work.h"
#include "shim/values/extents.h"
#include "shim/values/values.h"

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
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
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

Attribute holding(std::vector<DescriptorRef> descriptors) {
  return {CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(descriptors.size()), {}, std::move(descriptors)};
}

DescriptorRef made(cudnnBackendDescriptorType_t type) {
  auto descriptor = std::make_shared<Descriptor>(type);
  descriptor->finalized = true;
  return descriptor;
}

// The one configuration of an engine of a graph.
DescriptorRef configuration_of(const DescriptorRef& graph, int engine_index) {
  const DescriptorRef engine = made(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine->attributes.emplace(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, holding({graph}));
  engine->attributes.emplace(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, integer(engine_index));
  const DescriptorRef configuration = made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration->attributes.emplace(CUDNN_ATTR_ENGINECFG_ENGINE, holding({engine}));
  return configuration;
}

std::vector<DescriptorRef> configurations_of(const DescriptorRef& graph) {
  std::vector<DescriptorRef> configurations;
  const int engines = engine_count(*graph);
  for (int index = 0; index < engines; ++index) configurations.push_back(configuration_of(graph, index));
  return configurations;
}

DescriptorRef graph_of(const Descriptor& engine) noexcept { return child(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH); }

int index_of(const Descriptor& engine) {
  const std::vector<std::int64_t> index = integers(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  return index.empty() ? 0 : static_cast<int>(index[0]);
}

// What a configuration's engine does with its graph. False: it has none.
bool describe_configuration(const Descriptor& configuration, GraphWork& work) {
  const DescriptorRef engine = child(configuration, CUDNN_ATTR_ENGINECFG_ENGINE);
  const DescriptorRef graph = engine ? graph_of(*engine) : nullptr;
  return graph && describe(*graph, index_of(*engine), work);
}

std::int64_t workspace_of(const Descriptor& configuration) {
  GraphWork work;
  return describe_configuration(configuration, work) ? work.workspace_bytes : 0;
}

// Answers that the program did not put in: false if the attribute is none of them.
bool computed(const Descriptor& of, int attribute, Attribute& value) {
  switch (attribute) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const DescriptorRef graph = child(of, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      if (graph) value = holding(configurations_of(graph));
      return graph != nullptr;
    }
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT: value = integer(engine_count(of)); return true;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const DescriptorRef graph = graph_of(of);
      if (!graph || !uses_tensor_cores(*graph, index_of(of))) return false;
      value = one(CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
      return true;
    }
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE: value = integer(workspace_of(of)); return true;
    // The frontend drops a configuration that would use more than it allows.
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED: value = one(CUDNN_TYPE_INT32, std::int32_t{0}); return true;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: value = integer(of.work.workspace_bytes); return true;
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
  if (!configuration) return CUDNN_STATUS_BAD_PARAM;
  return describe_configuration(*configuration, plan.work) ? CUDNN_STATUS_SUCCESS
                                                           : CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
}

void forget(std::int64_t address) { forget_reached({reinterpret_cast<const void*>(address)}); }

// Of a tensor of a plan; 0: it has none.
std::int64_t address_of(std::int64_t uid, const Descriptor& pack) {
  const std::vector<std::int64_t> uids = integers(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const std::vector<std::int64_t> addresses = integers(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const auto place = static_cast<std::size_t>(std::find(uids.begin(), uids.end(), uid) - uids.begin());
  return place < std::min(uids.size(), addresses.size()) ? addresses[place] : 0;
}

// What a plan wrote is not computed, so nothing there is known any more.
void forget_outputs(const GraphWork& work, const Descriptor& pack) {
  for (const Output& output : work.outputs) {
    if (const std::int64_t address = address_of(output.uid, pack)) forget(address);
  }
  for (const std::int64_t workspace : integers(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)) {
    forget(workspace);
  }
}

// As many rows as there is room for in the block that Q is in: with other tensors in it, too many, at most as many as if
// all sequences were as long as the longest.
std::string ragged_signature(const RaggedAttention& ragged, const Descriptor& pack) {
  payloads::Attention attention = ragged.attention;
  const void* q = reinterpret_cast<const void*>(address_of(ragged.q_uid, pack));
  const std::int64_t most = attention.batch * attention.seqlen_q;
  const std::int64_t rows =
      static_cast<std::int64_t>(extent_of(q).bytes()) / std::max<std::int64_t>(ragged.row_bytes, 1);
  if (rows >= attention.seqlen_q && rows < most) {
    attention.bytes = attention.bytes / most * rows;
    attention.total_q = rows;
  }
  return payload_text(attention);
}

// The signature is announced by the process that drives the GPU, once a plan.
void record(Descriptor& plan, const Descriptor& pack, StreamRef stream) {
  if (!attached()) return;
  if (plan.work.ragged) return emit_kernel(stream, intern_signature(ragged_signature(*plan.work.ragged, pack)));
  std::uint32_t id = plan.signature_id.load(std::memory_order_relaxed);
  if (id == 0) plan.signature_id.store(id = intern_signature(plan.work.signature), std::memory_order_relaxed);
  emit_kernel(stream, id);
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                     cudnnBackendDescriptor_t* descriptor) noexcept {
  PH_CALL(cudnnBackendCreateDescriptor);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = descriptors.create(std::make_shared<Descriptor>(type));
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
    for (std::int64_t i = 0; i < count; ++i) {
      value.descriptors.push_back(find(handles[i]));
      if (!value.descriptors.back()) return CUDNN_STATUS_BAD_PARAM;
    }
  } else {
    const auto* bytes = static_cast<const char*>(elements);
    value.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * element_bytes(type));
  }
  descriptor->attributes.insert_or_assign(name, std::move(value));
  return CUDNN_STATUS_SUCCESS;
}

// An attribute that nobody set has no elements: behaviour notes, knobs and the like of our engines.
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
  // PyTorch resizes its list of configurations to this count, so it is never above what was given.
  const std::int64_t answered = elements ? std::min<std::int64_t>(requested, value.count) : value.count;
  if (count) *count = answered;
  if (elements) give(value, answered, elements);
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                            cudnnBackendDescriptor_t pack_handle) noexcept {
  PH_CALL(cudnnBackendExecute, HostCost::Library);
  const Context* context = contexts.get(handle);
  const DescriptorRef plan = find(plan_handle);
  const DescriptorRef pack = find(pack_handle);
  if (!context) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!plan || !pack) return CUDNN_STATUS_BAD_PARAM;
  if (!plan->finalized || !pack->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUDNN_STATUS_EXECUTION_FAILED;

  record(*plan, *pack, stream);
  if (any_known() || any_pinned()) forget_outputs(plan->work, *pack);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
