// What a rank tells the server: records of its work.
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/channel/ring.h"

namespace ph {

void emit(Record record, bool locate) noexcept {
  if (!attached()) return;
  if (locate) record.site = current_site();
  if (capture_record(record)) return;
  write_or_resume({&record, 1}, {}, std::nullopt);
}

void emit(Record record, std::string_view payload) noexcept {
  if (!attached()) return;
  record.arg[PayloadArg::Bytes] = payload.size();
  write_or_resume({&record, 1}, payload, std::nullopt);
}

void emit(std::span<Record> records, bool locate) noexcept {
  if (!attached()) return;
  if (locate) records.front().site = current_site();
  write_or_resume(records, {}, std::nullopt);
}

std::uint32_t intern_signature(std::string_view json) noexcept {
  static std::mutex mutex;
  static auto& ids = *new std::unordered_map<std::string, std::uint32_t>;  // threads still record at the end
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = ids.try_emplace(std::string(json), static_cast<std::uint32_t>(ids.size() + 1));
  if (is_new) {
    Record record{};
    record.kind = RecordKind::Signature;
    record.id = entry->second;
    emit(record, json);
    name_signature(entry->second, json);
  }
  return entry->second;
}

}  // namespace ph
