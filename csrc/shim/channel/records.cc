// What a rank tells the server: records of its work.
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/channel/ring.h"
#include "shim/channel/succession.h"

namespace ph {

namespace {

constexpr std::size_t kScope = KernelArg::Scope;
static_assert(kScope == std::size_t{CopyArg::Scope} && kScope == std::size_t{FillArg::Scope} &&
              kScope == std::size_t{NcclLaunchArg::Scope});

bool is_work(RecordKind kind) noexcept {
  return kind == RecordKind::Kernel || kind == RecordKind::Copy || kind == RecordKind::Fill ||
         kind == RecordKind::NcclLaunch;
}

void tell_scope(std::span<Record> records) noexcept {
  std::optional<std::uint32_t> scope;
  for (Record& record : records) {
    if (!is_work(record.kind)) continue;
    if (!scope) scope = current_scope();
    record.arg[kScope] = *scope;
  }
}

}  // namespace

void emit(Record& record, bool locate) noexcept {
  if (!attached()) return;
  if (locate) record.site = current_site();
  if (capture_record(record)) return;
  tell_scope({&record, 1});
  note_work({&record, 1});
  write_or_resume({&record, 1}, {}, std::nullopt);
}

void emit(Record& record, std::string_view payload) noexcept {
  if (!attached()) return;
  record.arg[PayloadArg::Bytes] = payload.size();
  write_or_resume({&record, 1}, payload, std::nullopt);
}

void emit(std::span<Record> records, bool locate) noexcept {
  if (!attached()) return;
  if (locate) records.front().site = current_site();
  tell_scope(records);
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
auto& signature_texts = *new std::unordered_map<std::uint32_t, const std::string*>;
}  // namespace

std::uint32_t intern_signature(std::string_view json) noexcept {
  const std::lock_guard lock(signatures);
  const auto [entry, is_new] = signature_ids.try_emplace(std::string(json), 0);
  if (is_new) {
    entry->second = static_cast<std::uint32_t>(next_number(Numbering::Signature));
    signature_texts[entry->second] = &entry->first;
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
  const auto found = signature_texts.find(signature);
  return found != signature_texts.end() ? std::string_view(*found->second) : "";
}

}  // namespace ph
