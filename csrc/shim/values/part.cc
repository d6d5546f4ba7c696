#include "shim/values/part.h"

#include <algorithm>
#include <cstring>

#include "shim/core/failure.h"
#include "shim/values/value_queue.h"

namespace ph {

namespace {

using Range = Part::Range;

std::vector<Range> intersection(const std::vector<Range>& a, const std::vector<Range>& b) {
  std::vector<Range> both;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    const std::uint32_t begin = std::max(x->first, y->first);
    const std::uint32_t end = std::min(x->second, y->second);
    if (begin < end) both.emplace_back(begin, end);
    x->second < y->second ? ++x : ++y;
  }
  return both;
}

// Ranges that touch become one: an element may lie across their border.
void append(std::vector<Range>& ranges, Range range) {
  if (!ranges.empty() && ranges.back().second == range.first) ranges.back().second = range.second;
  else ranges.push_back(range);
}

}  // namespace

Part read_part(const void* pointer, std::size_t bytes) {
  Part part;
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  known_now().each_in(pointer, bytes, [&](std::uintptr_t from, std::size_t size) {
    part.bytes.resize(bytes);
    std::memcpy(part.bytes.data() + (from - base), reinterpret_cast<const void*>(from), size);
    const auto begin = static_cast<std::uint32_t>(from - base);
    append(part.known, {begin, begin + static_cast<std::uint32_t>(size)});
  });
  known_now().each_unwritten(pointer, bytes, [&](std::uintptr_t from, std::size_t size) {
    const auto begin = static_cast<std::uint32_t>(from - base);
    part.unwritten.emplace_back(begin, begin + static_cast<std::uint32_t>(size));
  });
  return part;
}

void write_part(void* pointer, std::size_t bytes, const Part& part) {
  auto* to = static_cast<unsigned char*>(pointer);
  known_now().remove(to, bytes);
  const auto check = [bytes](std::size_t end) {
    if (end > bytes) fail_internal("values: a contribution is larger than its place; the ranks' counts differ");
  };
  for (const auto& [begin, end] : part.known) {
    check(end);
    std::memcpy(to + begin, part.bytes.data() + begin, end - begin);
    known_now().add(to + begin, end - begin);
  }
  for (const auto& [begin, end] : part.unwritten) {
    check(end);
    known_now().add_unwritten(to + begin, end - begin);
  }
}

Part slice(const Part& part, std::size_t offset, std::size_t bytes) {
  const auto from = static_cast<std::uint32_t>(offset);
  const auto to = static_cast<std::uint32_t>(offset + bytes);
  Part result;
  for (const auto& [begin, end] : intersection(part.known, {{from, to}})) {
    result.known.emplace_back(begin - from, end - from);
  }
  if (result.empty()) return result;
  const auto first = part.bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  result.bytes.assign(first, first + static_cast<std::ptrdiff_t>(bytes));
  return result;
}

std::vector<Range> known_in_all(std::span<const Part> parts, std::size_t element_bytes) {
  std::vector<Range> known = parts.front().known;
  for (const Part& part : parts.subspan(1)) known = intersection(known, part.known);
  std::vector<Range> whole;
  const auto width = static_cast<std::uint32_t>(element_bytes);
  for (const auto& [begin, end] : known) {
    const std::uint32_t first = (begin + width - 1) / width * width;
    const std::uint32_t last = end / width * width;
    if (first < last) whole.emplace_back(first, last);
  }
  return whole;
}

void pack(const Part& part, Bytes& message) {
  const auto put = [&message](const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    message.insert(message.end(), bytes, bytes + size);
  };
  const std::uint32_t head[3] = {static_cast<std::uint32_t>(part.known.size()),
                                 static_cast<std::uint32_t>(part.unwritten.size()),
                                 static_cast<std::uint32_t>(part.bytes.size())};
  put(head, sizeof head);
  put(part.known.data(), part.known.size() * sizeof(Range));
  put(part.unwritten.data(), part.unwritten.size() * sizeof(Range));
  put(part.bytes.data(), part.bytes.size());
}

std::vector<Part> unpack(std::span<const unsigned char> message) {
  std::vector<Part> parts;
  const auto take = [&message](void* to, std::size_t size) {
    if (size > message.size()) fail_internal("values: a message is too short");
    std::copy_n(message.data(), size, static_cast<unsigned char*>(to));  // both may be null, for no bytes
    message = message.subspan(size);
  };
  while (!message.empty()) {
    std::uint32_t head[3];
    take(head, sizeof head);
    Part part;
    part.known.resize(head[0]);
    part.unwritten.resize(head[1]);
    part.bytes.resize(head[2]);
    for (std::vector<Range>* ranges : {&part.known, &part.unwritten}) {
      for (Range& range : *ranges) {
        take(&range.first, sizeof range.first);
        take(&range.second, sizeof range.second);
      }
    }
    take(part.bytes.data(), part.bytes.size());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace ph
