// NVTX ranges of the program become markers of its record stream.
//
// NVTX 3 is a set of headers compiled into the program, which load the library named by NVTX_INJECTION64_PATH and
// call its InitializeInjectionNvtx2 to fill in their table of functions (source: nvtxDetail/nvtxInit.h and
// nvtxTypes.h of the NVTX 3 headers). The launcher sets the variable to the path of this library.
// Limits: the default domain, and text in the locale's encoding; ranges that start and end on different threads
// (nvtxRangeStart) are not nested and are left out.
#include <cstddef>
#include <cstdint>

#include "shim/channel/rank.h"

namespace {

using FunctionPointer = void (*)();

struct ExportTableCallbacks {
  std::size_t struct_size;
  int (*get_module_function_table)(int module, FunctionPointer*** table, unsigned* size);
};

constexpr std::uint32_t kExportTableCallbacks = 1;  // NVTX_ETID_CALLBACKS
constexpr int kModuleCore = 1;                      // NVTX_CB_MODULE_CORE
// NVTX_CBID_CORE_*
constexpr unsigned kMarkEx = 1, kMarkA = 2, kRangePushEx = 8, kRangePushA = 9, kRangePop = 11;
constexpr std::int32_t kMessageAscii = 1;  // NVTX_MESSAGE_TYPE_ASCII

struct EventAttributes {  // nvtxEventAttributes_v2
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type;
  std::int32_t reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  const char* message;
};

thread_local int depth = 0;

void mark(ph::MarkerKind kind, const char* name) noexcept {
  ph::Record record{};
  record.kind = ph::RecordKind::Marker;
  record.id = static_cast<std::uint32_t>(kind);
  ph::emit(record, std::string_view(name));
}

const char* text_of(const EventAttributes* event) noexcept {
  return event != nullptr && event->message_type == kMessageAscii && event->message != nullptr ? event->message : "";
}

// Both return the nesting level of the range, from 0.
int push_range(const char* name) noexcept {
  mark(ph::MarkerKind::RangePush, name != nullptr ? name : "");
  return depth++;
}

int pop_range() noexcept {
  if (depth == 0) return -1;
  mark(ph::MarkerKind::RangePop, "");
  return --depth;
}

// An instant is a range without length.
void mark_instant(const char* name) noexcept {
  push_range(name);
  pop_range();
}

int push_range_of(const EventAttributes* event) noexcept { return push_range(text_of(event)); }
void mark_instant_of(const EventAttributes* event) noexcept { mark_instant(text_of(event)); }

}  // namespace

// Returns 1 if the table was filled in. `get_export_table` is NVTX's.
extern "C" PH_EXPORT int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t id)) noexcept {
  const auto* callbacks = static_cast<const ExportTableCallbacks*>(get_export_table(kExportTableCallbacks));
  FunctionPointer** table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->struct_size < sizeof(ExportTableCallbacks)) return 0;
  if (callbacks->get_module_function_table(kModuleCore, &table, &size) == 0 || size <= kRangePop) return 0;
  *table[kMarkEx] = reinterpret_cast<FunctionPointer>(mark_instant_of);
  *table[kMarkA] = reinterpret_cast<FunctionPointer>(mark_instant);
  *table[kRangePushEx] = reinterpret_cast<FunctionPointer>(push_range_of);
  *table[kRangePushA] = reinterpret_cast<FunctionPointer>(push_range);
  *table[kRangePop] = reinterpret_cast<FunctionPointer>(pop_range);
  return 1;
}
