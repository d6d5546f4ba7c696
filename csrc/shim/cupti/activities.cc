// Which activities a profiler wants, and the buffers in which it gets them.
//
// A buffer is asked for when a kind is enabled and when one is full, filled when the profiler flushes, and given back
// then: other than NVIDIA's library, ours calls nobody from inside a call of CUDA.
#include <array>
#include <atomic>
#include <bitset>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

#include "shim/cupti/cupti.h"

using namespace ph;
using profiling::Kind;

namespace {

// The kinds, and what is gathered for them.
struct Source {
  CUpti_ActivityKind kind;
  std::initializer_list<Kind> of;
};
const Source kSources[] = {
    {CUPTI_ACTIVITY_KIND_MEMCPY, {Kind::Copy}},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, {Kind::Copy}},
    {CUPTI_ACTIVITY_KIND_MEMSET, {Kind::Fill}},
    {CUPTI_ACTIVITY_KIND_KERNEL, {Kind::Kernel, Kind::Communication}},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, {Kind::Kernel, Kind::Communication}},
    {CUPTI_ACTIVITY_KIND_RUNTIME, {Kind::Runtime}},
    {CUPTI_ACTIVITY_KIND_DRIVER, {Kind::Driver}},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, {Kind::Wait}},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, {Kind::EventRecord}},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, {Kind::External}},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, {}},  // a simulated profiler has none
};

constexpr std::size_t kMostCallbacks = 4096;
std::atomic<std::uint64_t> enabled_kinds{0};
std::array<std::bitset<kMostCallbacks>, 2> unwanted_calls;  // of the runtime, of the driver; guarded by the mutex
std::mutex mutex;
std::atomic<CUpti_ActivityKind> kernels_as{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

std::size_t domain_index(Kind domain) noexcept { return domain == Kind::Driver ? 1 : 0; }

const Source* find_source(CUpti_ActivityKind kind) noexcept {
  for (const Source& one : kSources) {
    if (one.kind == kind) return &one;
  }
  return nullptr;
}

bool is_enabled(CUpti_ActivityKind kind) noexcept { return (enabled_kinds.load() >> kind & 1) != 0; }

void gather_enabled() noexcept {
  std::uint32_t wanted = 0, all = 0;
  for (const Source& one : kSources) {
    for (const Kind kind : one.of) {
      all |= static_cast<std::uint32_t>(kind);
      if (is_enabled(one.kind)) wanted |= static_cast<std::uint32_t>(kind);
    }
  }
  for (std::uint32_t bit = 1; bit <= all; bit <<= 1) profiling::gather(static_cast<Kind>(bit), (wanted & bit) != 0);
}

// The program's buffers, one at a time.
class Buffers {
 public:
  void use(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) noexcept {
    request_ = request;
    complete_ = complete;
  }
  bool usable() const noexcept { return request_ != nullptr; }

  void hold() {
    if (buffer_ != nullptr || !usable()) return;
    std::size_t most_records = 0;
    size_ = used_ = 0;
    request_(&buffer_, &size_, &most_records);
    most_records_ = most_records != 0 ? most_records : SIZE_MAX;
    records_ = 0;
  }

  void give_back() {
    std::uint8_t* const buffer = buffer_;
    buffer_ = nullptr;
    if (buffer != nullptr) complete_(nullptr, 0, buffer, size_, used_);
  }

  bool holds_records() const noexcept { return buffer_ != nullptr && used_ > 0; }

  void add(std::span<const std::uint8_t> record) {
    if (buffer_ != nullptr && (used_ + record.size() > size_ || records_ == most_records_)) give_back();
    hold();
    if (buffer_ == nullptr || record.size() > size_) {
      ++dropped_;
      return;
    }
    std::memcpy(buffer_ + used_, record.data(), record.size());
    used_ += record.size();
    ++records_;
  }

  std::size_t take_dropped() noexcept { return std::exchange(dropped_, 0); }

 private:
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::uint8_t* buffer_ = nullptr;
  std::size_t size_ = 0, used_ = 0, records_ = 0, most_records_ = 0, dropped_ = 0;
};

std::recursive_mutex flushing;  // guards the buffers; the program's functions are called with it held
auto& buffers = *new Buffers;

CUptiResult flush(bool forced) {
  const std::lock_guard lock(flushing);
  if (!buffers.usable()) return CUPTI_ERROR_INVALID_OPERATION;
  profiling::collect([](const profiling::Activity& activity) {
    std::array<std::uint8_t, cupti::kMostRecordBytes> record;
    const std::size_t bytes = cupti::write_record(activity, record);
    if (bytes != 0) buffers.add({record.data(), bytes});
  });
  if (forced || buffers.holds_records()) buffers.give_back();
  if (!forced && enabled_kinds.load() != 0) buffers.hold();
  return CUPTI_SUCCESS;
}

CUptiResult choose_calls(Kind domain, CUpti_CallbackId callback, bool wanted) noexcept {
  if (callback >= kMostCallbacks) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(mutex);
  unwanted_calls[domain_index(domain)].set(callback, !wanted);
  return CUPTI_SUCCESS;
}

}  // namespace

namespace ph::cupti {

CUpti_ActivityKind kind_of_kernels() noexcept { return kernels_as.load(); }

bool wants_call(Kind domain, CUpti_CallbackId callback) noexcept {
  const std::lock_guard lock(mutex);
  return callback < kMostCallbacks && !unwanted_calls[domain_index(domain)].test(callback);
}

}  // namespace ph::cupti

extern "C" {

PH_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                     CUpti_BuffersCallbackCompleteFunc complete) noexcept {
  PH_CALL(cuptiActivityRegisterCallbacks, HostCost::None);
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(flushing);
  buffers.use(request, complete);
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) noexcept {
  PH_CALL(cuptiActivityEnable, HostCost::None);
  if (find_source(kind) == nullptr) {
    const std::string detail = "activities of kind " + std::to_string(kind);
    return static_cast<CUptiResult>(library::unsupported("cuptiActivityEnable", detail.c_str()));
  }
  if (kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) kernels_as = kind;
  enabled_kinds.fetch_or(std::uint64_t{1} << kind);
  gather_enabled();
  const std::lock_guard lock(flushing);
  buffers.hold();
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) noexcept {
  PH_CALL(cuptiActivityDisable, HostCost::None);
  if (find_source(kind) == nullptr) return CUPTI_SUCCESS;  // it never was enabled
  enabled_kinds.fetch_and(~(std::uint64_t{1} << kind));
  gather_enabled();
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId callback, std::uint8_t on) noexcept {
  PH_CALL(cuptiActivityEnableRuntimeApi, HostCost::None);
  return choose_calls(Kind::Runtime, callback, on != 0);
}

PH_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId callback, std::uint8_t on) noexcept {
  PH_CALL(cuptiActivityEnableDriverApi, HostCost::None);
  return choose_calls(Kind::Driver, callback, on != 0);
}

PH_EXPORT CUptiResult cuptiActivityFlushAll(std::uint32_t flags) noexcept {
  PH_CALL(cuptiActivityFlushAll, HostCost::None);
  return flush((flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
}

PH_EXPORT CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes,
                                                 CUpti_Activity** record) noexcept {
  PH_CALL(cuptiActivityGetNextRecord, HostCost::None);
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  auto* next = reinterpret_cast<std::uint8_t*>(*record);
  if (next == nullptr) {
    next = buffer;
  } else {
    const std::size_t bytes = cupti::record_bytes((*record)->kind);
    if (bytes == 0) return CUPTI_ERROR_INVALID_KIND;
    next += bytes;
  }
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) noexcept {
  PH_CALL(cuptiActivityGetNumDroppedRecords, HostCost::None);
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(flushing);
  *dropped = buffers.take_dropped();
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                             std::uint64_t id) noexcept {
  PH_CALL(cuptiActivityPushExternalCorrelationId, HostCost::None);
  if (kind <= 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  profiling::push_external(static_cast<std::uint32_t>(kind), id);
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                            std::uint64_t* last) noexcept {
  PH_CALL(cuptiActivityPopExternalCorrelationId, HostCost::None);
  std::uint64_t number = 0;
  if (kind <= 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!profiling::pop_external(static_cast<std::uint32_t>(kind), number)) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = number;
  return CUPTI_SUCCESS;
}

// A profiler that ends for good: what it had asked for is not gathered any more.
PH_EXPORT CUptiResult cuptiFinalize() noexcept {
  PH_CALL(cuptiFinalize, HostCost::None);
  enabled_kinds = 0;
  gather_enabled();
  return CUPTI_SUCCESS;
}

}  // extern "C"
