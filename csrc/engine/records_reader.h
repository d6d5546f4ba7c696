// Cuts one rank's cells into records. What belongs together (an announcement and its payload, an NCCL launch and
// its operations) is handed on together; an incomplete end is kept for the next feed.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/common.h"

namespace ph {

class RecordsReader {
 public:
  struct Unit {
    std::span<const Record> records;  // one, or an NcclLaunch and its NcclOps
    std::string_view payload;
  };

  explicit RecordsReader(std::uint32_t rank) : rank_(rank) {}

  void append(std::string_view cells);
  std::optional<Unit> next();  // good until the next append

  // A rank writes at once what belongs together; throws if `next` has left an end.
  void check_whole() const;

  // The record that `next` returned last says something it may not say.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const std::uint32_t rank_;
  std::uint64_t records_ = 0;  // handed on so far
  std::uint64_t index_ = 0;    // of the record that `next` looked at last
  RecordKind kind_{};
  std::vector<Record> cells_;
  std::size_t read_ = 0;
};

}  // namespace ph
