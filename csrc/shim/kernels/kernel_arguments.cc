#include "shim/kernels/kernel_arguments.h"

#include <algorithm>
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace ph {
namespace {

std::string demangle(std::string_view mangled) {
  const std::string name(mangled);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    &std::free);
  return status == 0 && text ? std::string(text.get()) : std::string();
}

// The text between the last closing parenthesis and the one that opens it: parentheses always balance, also in
// "operator()" and "(anonymous namespace)".
bool parameter_list(std::string_view text, std::string_view& list) {
  if (text.empty() || text.back() != ')') return false;
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) {
      list = text.substr(i + 1, text.size() - i - 2);
      return true;
    }
  }
  return false;
}

// Length of an operator's name or an arrow at the front of `text`, whose brackets are not brackets.
std::size_t bracket_free(std::string_view text) {
  static constexpr std::string_view kPieces[] = {"operator<<=", "operator>>=", "operator<=>", "operator<<",
                                                 "operator>>",  "operator<=",  "operator>=",  "operator->*",
                                                 "operator->",  "operator<",   "operator>",   "->"};
  for (const std::string_view piece : kPieces) {
    if (text.starts_with(piece)) return piece.size();
  }
  return 0;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool split(std::string_view list, std::vector<std::string_view>& types) {
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const std::size_t skip = bracket_free(list.substr(i))) {
      i += skip - 1;
      continue;
    }
    const char c = list[i];
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    if ((c == ')' || c == '>' || c == '}' || c == ']') && --depth < 0) return false;
    if (c == ',' && depth == 0) {
      types.push_back(trim(list.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (depth != 0) return false;
  const std::string_view last = trim(list.substr(start));
  if (!last.empty() && last != "void") types.push_back(last);
  return true;
}

bool integer_type(std::string_view type, ArgumentPlan::Integer& out) {
  struct Known {
    std::string_view name;
    std::uint8_t bytes;
    bool is_signed;
  };
  static constexpr Known kKnown[] = {
      {"int", 4, true},         {"unsigned int", 4, false},       {"long", 8, true},  {"unsigned long", 8, false},
      {"long long", 8, true},   {"unsigned long long", 8, false}, {"short", 2, true}, {"unsigned short", 2, false},
      {"signed char", 1, true}, {"unsigned char", 1, false},      {"char", 1, true},  {"bool", 1, false}};
  for (const Known& known : kKnown) {
    if (type != known.name) continue;
    out.bytes = known.bytes;
    out.is_signed = known.is_signed;
    return true;
  }
  return false;
}

void plan_parameter(std::string_view type, std::uint16_t index, bool large_lists, ArgumentPlan& plan) {
  if (type.ends_with("__restrict")) type = trim(type.substr(0, type.size() - std::strlen("__restrict")));
  ArgumentPlan::Integer integer{index, 0, false};
  if (integer_type(type, integer)) {
    plan.integers.push_back(integer);
  } else if (!type.ends_with("*")) {
    for (const SizeReader& reader : plan_structure(type, index, large_lists)) {
      // Where rows end is told like where they begin.
      const bool is_told = reader.kind == SizeReader::Kind::Segments && !plan.readers.empty() &&
                           plan.readers.back().kind == SizeReader::Kind::Segments;
      if (!is_told) plan.readers.push_back(reader);
    }
  }
}

std::int64_t read_integer(const ArgumentPlan::Integer& integer, const void* argument) noexcept {
  // A register-sized load of exactly the argument's bytes; the sign is extended by shifting it through the top.
  std::uint64_t raw = 0;
  switch (integer.bytes) {
    case 8: std::memcpy(&raw, argument, 8); break;
    case 4: std::memcpy(&raw, argument, 4); break;
    case 2: std::memcpy(&raw, argument, 2); break;
    default: std::memcpy(&raw, argument, 1); break;
  }
  if (!integer.is_signed || integer.bytes == 8) return static_cast<std::int64_t>(raw);
  const int shift = 64 - 8 * integer.bytes;
  return static_cast<std::int64_t>(raw << shift) >> shift;
}

using NamedSizes = std::vector<std::pair<std::string, std::int64_t>>;

NamedSizes named_sizes(const ArgumentPlan& plan, std::span<const std::int64_t> values) {
  NamedSizes sizes;
  std::size_t next = plan.integers.size();
  for (const SizeReader& reader : plan.readers) {
    for (const std::string_view name : size_names(reader.kind)) {
      if (next >= values.size()) break;
      const std::int64_t value = values[next++];
      if (value == kUnknownSize) continue;
      if (!sizes.empty() && sizes.back().first == name) sizes.back().second += value;
      else sizes.emplace_back(name, value);
    }
  }
  if (plan.indices && next < values.size() && values[next] != kUnknownSize)
    sizes.emplace_back("distinct", values[next]);
  return sizes;
}

}  // namespace

bool parameter_types(std::string_view mangled, std::string& name, std::vector<std::string>& types) {
  name = demangle(mangled);
  std::string_view list;
  std::vector<std::string_view> found;
  if (!parameter_list(name, list) || !split(list, found) || found.size() > 1024) return false;
  types.assign(found.begin(), found.end());
  return true;
}

ArgumentPlan plan_arguments(std::string_view mangled, bool large_lists) {
  ArgumentPlan plan;
  std::string name;
  std::vector<std::string> types;
  if (!parameter_types(mangled, name, types)) return plan;
  plan.understood = true;
  plan.parameters = static_cast<std::uint16_t>(types.size());
  for (std::uint16_t index = 0; index < plan.parameters; ++index)
    plan_parameter(types[index], index, large_lists, plan);
  for (const SizeReader& reader : plan_lookups(name, types)) plan.readers.push_back(reader);
  for (const SizeReader& reader : plan_tensors(name, types)) plan.readers.push_back(reader);
  plan.indices = find_indices(name, types);
  return plan;
}

std::size_t value_count(const ArgumentPlan& plan) noexcept {
  std::size_t count = plan.integers.size();
  for (const SizeReader& reader : plan.readers) count += size_names(reader.kind).size();
  return count;
}

std::size_t read_scalars(const ArgumentPlan& plan, const LaunchShape& shape, void* const* args, std::int64_t* out,
                         std::size_t capacity) noexcept {
  std::size_t written = 0;
  for (const ArgumentPlan::Integer& integer : plan.integers) {
    if (written == capacity) return written;
    out[written++] = read_integer(integer, args[integer.parameter]);
  }
  for (const SizeReader& reader : plan.readers) {
    const std::size_t count = size_names(reader.kind).size();
    if (capacity - written < count) return written;
    read_sizes(reader, shape, args[reader.parameter], out + written);
    written += count;
  }
  return written;
}

payloads::Kernel describe_launch(std::string_view name, const LaunchShape& shape, const ArgumentPlan& plan,
                                 std::span<const std::int64_t> values) {
  payloads::Kernel told{
      .name = std::string(name),
      .grid = {shape.grid[0], shape.grid[1], shape.grid[2]},
      .block = {shape.block[0], shape.block[1], shape.block[2]},
      .shared_bytes = shape.shared_bytes,
      .scalars = {},
  };
  for (std::size_t i = 0; i < plan.integers.size() && i < values.size(); ++i)
    told.scalars.emplace_back(plan.integers[i].parameter, values[i]);
  if (NamedSizes sizes = named_sizes(plan, values); !sizes.empty()) told.sizes = std::move(sizes);
  return told;
}

}  // namespace ph
