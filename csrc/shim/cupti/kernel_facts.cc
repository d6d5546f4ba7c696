#include "shim/cupti/kernel_facts.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "shim/channel/rank.h"

namespace ph::cupti {

namespace {

// Where the value of a key begins in the JSON that the shim writes itself; empty: it has no such key.
std::string_view value_of(std::string_view json, std::string_view key) {
  const std::string quoted = '"' + std::string(key) + "\": ";
  const auto found = json.find(quoted);
  return found == json.npos ? std::string_view() : json.substr(found + quoted.size());
}

std::string text_of(std::string_view json, std::string_view key) {
  std::string_view value = value_of(json, key);
  std::string text;
  if (!value.starts_with('"')) return text;
  for (value.remove_prefix(1); !value.empty() && value.front() != '"'; value.remove_prefix(1)) {
    if (value.front() == '\\') value.remove_prefix(1);
    if (!value.empty()) text += value.front();
  }
  return text;
}

std::int64_t number_of(std::string_view value) {
  std::int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

void read_triple(std::string_view json, std::string_view key, std::int32_t (&triple)[3]) {
  std::string_view value = value_of(json, key);
  for (std::int32_t& one : triple) {
    one = 1;
    const auto digit = value.find_first_of("0123456789");
    if (digit == value.npos) continue;
    value.remove_prefix(digit);
    one = static_cast<std::int32_t>(number_of(value));
    value.remove_prefix(std::min(value.size(), value.find_first_not_of("0123456789")));
  }
}

std::string name_product(std::string_view json) {
  std::string name = value_of(json, "grouped").starts_with("true") ? "grouped gemm " : "gemm ";
  name += text_of(json, "a");
  const char* between = " ";
  for (const char* size : {"m", "n", "k"}) {
    name += between + std::to_string(number_of(value_of(json, size)));
    between = "x";
  }
  const std::int64_t batch = number_of(value_of(json, "batch"));
  if (batch > 1) name += " x" + std::to_string(batch);
  return name + ' ' + text_of(json, "transa") + text_of(json, "transb");
}

KernelFacts read_facts(std::string_view json) {
  KernelFacts facts{};
  const std::string kind = text_of(json, "kind");
  if (kind == "kernel") facts.name = text_of(json, "name");
  else if (kind == "gemm") facts.name = name_product(json);
  else facts.name = text_of(json, "library") + ' ' + text_of(json, "operation");
  read_triple(json, "grid", facts.grid);
  read_triple(json, "block", facts.block);
  facts.shared_bytes = static_cast<std::int32_t>(number_of(value_of(json, "shared_bytes")));
  return facts;
}

}  // namespace

const KernelFacts& kernel_facts(std::uint32_t signature) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<std::uint32_t, KernelFacts>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace(signature);
  if (is_new) entry->second = read_facts(signature_text(signature));
  return entry->second;
}

}  // namespace ph::cupti
