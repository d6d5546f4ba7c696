// The little JSON that the shim writes: quoted strings. Objects are put together by hand where they are made.
#pragma once

#include <string>
#include <string_view>

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

}  // namespace ph
