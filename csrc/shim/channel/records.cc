// What a rank tells the server: records of its work.
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/channel/ring.h"

namespace ph {

void emit(Record record, bool locate) noexcept {
  if (!attached()) return;
  if (locate) record.site = current_site();
  if (capture_record(record)) return;
  note_work({&record, 1});
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
  note_work(records);
  write_or_resume(records, {}, std::nullopt);
}

void emit_statistics(std::string_view json) noexcept {
  Record record{};
  record.kind = RecordKind::Statistics;
  emit(record, json);
}

namespace {
std::mutex signatures;
// Never destroyed: threads still record at the end.
auto& signature_ids = *new std::unordered_map<std::string, std::uint32_t>;
auto& signature_texts = *new std::vector<const std::string*>;  // of 1, 2, ...
}  // namespace

std::uint32_t intern_signature(std::string_view json) noexcept {
  const std::lock_guard lock(signatures);
  const auto id = static_cast<std::uint32_t>(signature_ids.size() + 1);
  const auto [entry, is_new] = signature_ids.try_emplace(std::string(json), id);
  if (is_new) {
    signature_texts.push_back(&entry->first);
    Record record{};
    record.kind = RecordKind::Signature;
    record.id = entry->second;
    emit(record, json);
    name_signature(entry->second, json);
  }
  return entry->second;
}

std::string_view signature_text(std::uint32_t signature) noexcept {
  const std::lock_guard lock(signatures);
  return signature - 1 < signature_texts.size() ? std::string_view(*signature_texts[signature - 1]) : "";
}

}  // namespace ph
