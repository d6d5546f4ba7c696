// Reads instructions as pairs of hexadecimal words and prints what a thread moves.
#include "shim/cuda/machine_code.h"

#include <cstdint>
#include <iostream>
#include <string>

int main() {
  std::string text;
  for (std::uint64_t word = 0; std::cin >> std::hex >> word;) {
    text.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  std::cout << ph::driver::thread_bytes(text) << '\n';
}
