// What readers of kernels' structures share: fields by their offset, numbers among a template's arguments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace ph {

inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // below any device address

// Of numbers that a structure holds where others are expected, too: an element count is within these.
constexpr bool may_be_elements(std::int64_t count) { return count >= 0 && count <= kMostElements; }

template <typename T>
T at(const void* base, std::size_t offset_bytes) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + offset_bytes, sizeof(T));
  return value;
}

constexpr std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// What follows the `skip`-th ", " (0: the first argument) of the template list that begins after `head`.
inline std::string_view template_text(std::string_view type, std::string_view head, int skip) {
  const std::size_t start = type.find(head);
  if (start == std::string_view::npos) return {};
  std::size_t from = start + head.size();
  int depth = 0;
  for (; skip > 0 && from < type.size(); ++from) {
    if (type[from] == '<') ++depth;
    if (type[from] == '>') --depth;
    if (type[from] == ',' && depth == 0) --skip;
  }
  const std::size_t blanks = std::min(type.find_first_not_of(' ', from), type.size());
  return type.substr(blanks);
}

inline std::uint32_t template_number(std::string_view type, std::string_view head, int skip) {
  const std::string rest(template_text(type, head, skip).substr(0, 24));
  const long number = std::strtol(rest.c_str(), nullptr, 10);
  return number > 0 ? static_cast<std::uint32_t>(number) : 0;
}

}  // namespace ph
