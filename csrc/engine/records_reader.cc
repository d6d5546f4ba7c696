#include "engine/records_reader.h"

#include <cstring>

#include "engine/names.h"
#include "protocol/channel.h"

namespace ph {

void RecordsReader::append(std::string_view cells) {
  if (cells.size() % kCellBytes != 0)
    throw MalformedInput("rank " + std::to_string(rank_) + ": " + std::to_string(cells.size()) +
                         " bytes are not whole cells of 64 bytes");
  cells_.erase(cells_.begin(), cells_.begin() + static_cast<std::ptrdiff_t>(read_));
  read_ = 0;
  const std::size_t kept = cells_.size();
  cells_.resize(kept + cells.size() / kCellBytes);
  if (!cells.empty()) std::memcpy(cells_.data() + kept, cells.data(), cells.size());
}

std::optional<RecordsReader::Unit> RecordsReader::next() {
  if (read_ == cells_.size()) return std::nullopt;
  const Record& first = cells_[read_];
  kind_ = first.kind;
  index_ = records_;
  if (!is_record_kind(first.kind)) fail("unknown kind");
  if (first.kind == RecordKind::NcclOp) fail("stands outside an NcclLaunch");

  std::size_t more = 0;
  if (has_payload(first.kind) || first.kind == RecordKind::NcclLaunch) {
    const std::uint64_t most = has_payload(first.kind) ? kRingCells * kCellBytes : kRingCells;
    if (first.arg[PayloadArg::Bytes] > most) fail("is longer than the ring");
    more = has_payload(first.kind) ? payload_cells(first.arg[PayloadArg::Bytes]) : first.arg[NcclLaunchArg::Operations];
  }
  if (more > cells_.size() - read_ - 1) return std::nullopt;

  Unit unit{{&first, 1}, {}};
  if (has_payload(first.kind)) {
    unit.payload = {reinterpret_cast<const char*>(&first + 1), first.arg[PayloadArg::Bytes]};
    records_ += 1;
  } else {
    unit.records = {&first, 1 + more};
    for (const Record& op : unit.records.subspan(1))
      if (op.kind != RecordKind::NcclOp) fail("is not followed by its NcclOps");
    records_ += 1 + more;
  }
  read_ += 1 + more;
  return unit;
}

void RecordsReader::check_whole() const {
  if (read_ != cells_.size()) fail("ends before it is whole");
}

void RecordsReader::fail(const std::string& what) const {
  throw MalformedInput("rank " + std::to_string(rank_) + ", record " + std::to_string(index_) + " (" + name(kind_) +
                       "): " + what);
}

}  // namespace ph
