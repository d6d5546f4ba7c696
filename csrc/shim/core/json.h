// JSON as the shim writes it: texts, and payloads of csrc/protocol/payloads.h.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/payloads.h"

namespace ph {

inline std::string json_string(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += "\\u00";
      quoted += kHex[(c >> 4) & 0xf];
      quoted += kHex[c & 0xf];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

inline std::string json_of(const std::string& text) { return json_string(text); }
inline std::string json_of(const payloads::Json& json) { return json.text; }
template <std::integral Value>
std::string json_of(Value value) {
  if constexpr (std::same_as<Value, bool>) return value ? "true" : "false";
  else return std::to_string(value);
}

template <class... Parts>
std::string json_of(const std::tuple<Parts...>& parts) {
  std::string json;
  const auto append = [&json](const auto& part) { json += (json.empty() ? "" : ", ") + json_of(part); };
  std::apply([&append](const Parts&... part) { (append(part), ...); }, parts);
  return '[' + json + ']';
}

template <class Item>
std::string json_of(const std::vector<Item>& items) {
  std::string json;
  for (const Item& item : items) json += (json.empty() ? "" : ", ") + json_of(item);
  return '[' + json + ']';
}

template <class Value>
std::string json_of(const std::vector<std::pair<std::string, Value>>& members) {
  std::string json;
  for (const auto& [name, value] : members)
    json += (json.empty() ? "" : ", ") + json_string(name) + ": " + json_of(value);
  return '{' + json + '}';
}

// Writes members of an object, and leaves out those that have no value.
class JsonMembers {
 public:
  template <class Value>
  void operator()(const char* name, const Value& value) {
    json_ += (json_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + json_of(value);
  }
  template <class Value>
  void operator()(const char* name, const std::optional<Value>& value) {
    if (value) (*this)(name, *value);
  }

  std::string text() const { return '{' + json_ + '}'; }

 private:
  std::string json_;
};

template <class Payload>
std::string payload_text(const Payload& payload) {
  JsonMembers members;
  payload.each(members);
  return members.text();
}

}  // namespace ph
