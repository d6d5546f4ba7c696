#include "shim/launch/launch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/core/json.h"
#include "shim/graph/capture.h"
#include "shim/host_time/host_time.h"
#include "shim/kernels/kernel_compiled.h"
#include "shim/launch/argument_reach.h"
#include "shim/launch/looked_up.h"
#include "shim/values/value_kernels.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Two launches that differ only in integers beyond these share a signature; no kernel of PyTorch 2.15 has as many.
constexpr std::size_t kMaxValues = 32;

// What tells two launches of one function apart: the first `values` of `value`; what follows them is never read.
struct LaunchKey {
  LaunchShape shape;
  std::uint32_t values;
  std::size_t host_bytes;
  std::array<std::int64_t, kMaxValues> value;

  bool operator==(const LaunchKey& other) const noexcept {
    return std::memcmp(&shape, &other.shape, sizeof shape) == 0 && values == other.values &&
           host_bytes == other.host_bytes && std::equal(value.begin(), value.begin() + values, other.value.begin());
  }
};

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

struct LaunchHash {
  std::size_t operator()(const LaunchKey& key) const noexcept {
    std::uint64_t hash = mixed(key.shape.shared_bytes, key.host_bytes);
    for (int i = 0; i < 3; ++i) hash = mixed(hash, std::uint64_t{key.shape.grid[i]} << 32 | key.shape.block[i]);
    for (std::uint32_t i = 0; i < key.values; ++i) hash = mixed(hash, static_cast<std::uint64_t>(key.value[i]));
    return hash;
  }
};

}  // namespace

struct KernelFunction {
  std::string name;
  KernelCode code;
  bool is_grouped_product;
  ArgumentPlan plan;
  ReachPlan reach;
  std::once_flag sizes_are_looked_up;
  KernelRule rule;
  std::mutex mutex;
  std::unordered_map<LaunchKey, std::uint32_t, LaunchHash> signatures;
};

namespace {

thread_local std::uint32_t stated_product = 0;
thread_local StatedCode stated_code;

// CUTLASS names the problem shape of a kernel that finds its sizes on the device.
bool names_grouped_product(std::string_view name) noexcept {
  return name.find("GroupProblemShape") != std::string_view::npos;
}

std::string launch_text(const KernelFunction& function, const LaunchShape& shape, std::span<const std::int64_t> values,
                        std::size_t host_bytes) {
  payloads::Kernel told = describe_launch(function.name, shape, function.plan, values);
  if (host_bytes != 0) told.host_bytes = static_cast<std::int64_t>(host_bytes);
  if (function.code.module_hash != 0) {
    told.module = hash_text(function.code.module_hash);
    if (function.code.thread_bytes != 0) told.thread_bytes = function.code.thread_bytes;
    const StatedCode& stated = function.code.stated;
    if (!stated.block_bytes.empty()) told.block_bytes = stated.block_bytes;
    if (!stated.block_again.empty()) told.block_again = stated.block_again;
    if (!stated.block_instructions.empty()) told.block_instructions = stated.block_instructions;
    if (!stated.block_flops.empty()) told.block_flops = stated.block_flops;
  }
  return payload_text(told);
}

// Of a kernel whose name does not tell how many parameters it has, nothing can be kept.
void keep(const KernelFunction& function, std::string_view signature, void** arguments, const LaunchForm& form) {
  if (!keeps_launches() || (function.code.module_hash == 0 && !function.plan.understood)) return;
  keep_launch(signature, function.code, function.plan.parameters, form, arguments);
}

std::uint32_t signature_of(KernelFunction& function, const LaunchShape& shape, void** arguments, const LaunchForm& form,
                           std::size_t host_bytes) {
  if (function.is_grouped_product && stated_product != 0) return stated_product;
  LaunchKey key;
  key.shape = shape;
  key.host_bytes = host_bytes;
  key.values = arguments == nullptr ? 0
                                    : static_cast<std::uint32_t>(read_scalars(function.plan, shape, arguments,
                                                                              key.value.data(), key.value.size()));
  if (function.plan.indices && arguments != nullptr && !call_is_captured() && key.values < key.value.size() &&
      key.values == value_count(function.plan))
    key.value[key.values++] = distinct_rows(*function.plan.indices, arguments);
  const std::lock_guard lock(function.mutex);
  std::uint32_t& signature = function.signatures[key];
  if (signature == 0) {
    const std::string text = launch_text(function, shape, {key.value.data(), key.values}, host_bytes);
    keep(function, text, arguments, form);
    signature = intern_signature(text);
  }
  return signature;
}

}  // namespace

namespace {

// Elements of its inputs that a strided kernel has: of an expanded one fewer than of the result, of an index of rows one
// for each.
void add_strided(std::string_view mangled, ArgumentPlan& plan) {
  std::string name;
  std::vector<std::string> types;
  if (plan.parameters != 2 || !parameter_types(mangled, name, types)) return;
  const std::uint16_t operands = std::max(operands_of_closure(name), operands_of_indexing(name));
  if (const auto reader = plan_strided(operands)) plan.readers.push_back(*reader);
}

void describe_compiled(KernelFunction& function) {
  KernelCode& code = function.code;
  const CompiledKernel kernel{function.name, code.parameter_bytes, code.stored_bytes, code.narrowest_store_bytes};
  function.plan = plan_compiled(kernel);
  for (std::size_t i = 0; i < std::min<std::size_t>(code.parameter_bytes.size(), 64); ++i) {
    if ((code.stated.counted_by >> i & 1) == 0) continue;
    const auto bytes = static_cast<std::uint8_t>(code.parameter_bytes[i]);
    function.plan.integers.push_back({.parameter = static_cast<std::uint16_t>(i), .bytes = bytes, .is_signed = true});
  }
  if (const std::uint32_t bytes = pointwise_thread_bytes(kernel)) code.thread_bytes = bytes;
}

// Not before a launch that has something to forget: a code object is unpacked for it.
const ReachPlan& reach_of(KernelFunction& function) {
  std::call_once(function.sizes_are_looked_up, [&function] {
    if (!lacks_sizes(function.reach) || !function.code.find_parameters) return;
    if (const auto sizes = function.code.find_parameters()) add_sizes(*sizes, function.reach);
  });
  return function.reach;
}

// So that launches of slices have few signatures: to three binary digits, upwards.
std::size_t rounded(std::size_t bytes) noexcept {
  const std::size_t step = std::bit_floor(bytes) / 4;
  return step == 0 ? bytes : (bytes + step - 1) / step * step;
}

// Brings managed memory to the device. Returns how much of it is used where it is, on the host. A capture's launches find it
// as the capture does: nothing is moved for them (docs/decisions/managed-memory.md).
std::size_t use_memory(KernelFunction& function, const LaunchShape& shape, void* const* arguments, StreamRef stream,
                       const LaunchForm& form) {
  if (!any_managed() || call_is_captured()) return 0;
  const auto operands = managed_arguments(reach_of(function), shape, arguments, form);
  if (operands.empty()) return 0;
  ensure_context(stream.device);
  return rounded(use_managed(operands, stream));
}

}  // namespace

KernelFunction* make_kernel_function(const char* name, KernelCode code) {
  auto* function = new KernelFunction{name, std::move(code), names_grouped_product(name), {}, {}, {}, {}, {}, {}};
  const bool large_lists = config().number("torch.list_kib") == 32;
  if (function->code.module_hash != 0) function->code.stated = stated_code;
  function->reach = plan_reach(function->name, function->code, large_lists);
  if (function->code.module_hash == 0) {
    function->plan = plan_arguments(function->name, large_lists);
    add_strided(function->name, function->plan);
    function->rule = classify_kernel(function->name);
  } else {
    describe_compiled(*function);
  }
  return function;
}

void state_product(std::uint32_t signature) noexcept { stated_product = signature; }

void state_code(StatedCode code) noexcept { stated_code = std::move(code); }

const char* kernel_name(const KernelFunction& function) noexcept { return function.name.c_str(); }

void launch_kernel(KernelFunction& function, const LaunchShape& shape, void** arguments, StreamRef stream,
                   const LaunchForm& form) noexcept {
  const std::size_t host_bytes = use_memory(function, shape, arguments, stream, form);
  const std::uint32_t signature = signature_of(function, shape, arguments, form, host_bytes);
  charge_launch(signature);
  enter_queue(stream);
  Record record{};
  record.kind = RecordKind::Kernel;
  record.device = stream.device;
  record.stream = stream.id;
  record.id = signature;
  emit(record);
  // The values that a rule would take are those of the graph's launch, which are not known yet.
  if (!call_is_captured() && (apply_kernel(function.rule, shape, arguments) || writes_stated())) return;
  if (any_known() || any_pinned() || !function.reach.is_pytorchs)
    forget_arguments(reach_of(function), shape, arguments, form);
}

int max_active_blocks(int block_threads, std::size_t dynamic_shared_bytes) noexcept {
  constexpr std::int64_t kAssumedRegisters = 32;
  const Config& c = config();
  const std::int64_t threads = std::max(block_threads, 1);
  const auto shared = static_cast<std::int64_t>(dynamic_shared_bytes) + c.number("gpu.reservedSharedMemPerBlock");
  if (shared > c.number("gpu.sharedMemPerBlockOptin") + c.number("gpu.reservedSharedMemPerBlock")) return 0;
  std::int64_t blocks = c.number("gpu.maxBlocksPerMultiProcessor");
  blocks = std::min(blocks, c.number("gpu.maxThreadsPerMultiProcessor") / threads);
  blocks = std::min(blocks, c.number("gpu.regsPerMultiprocessor") / (threads * kAssumedRegisters));
  if (shared > 0) blocks = std::min(blocks, c.number("gpu.sharedMemPerMultiprocessor") / shared);
  return static_cast<int>(blocks);
}

}  // namespace ph
