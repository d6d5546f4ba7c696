// Reads instructions as pairs of hexadecimal words and prints what a thread moves, and what
// all stores do.
#include "shim/cuda/machine_code.h"

#include <cstdint>
#include <iostream>
#include <string>

int main() {
  std::string text;
  for (std::uint64_t word = 0; std::cin >> std::hex >> word;) {
    text.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  const ph::driver::CodeAccesses found = ph::driver::code_accesses(text);
  std::cout << found.thread_bytes << ' ' << found.stored_bytes << ' ' << found.narrowest_store_bytes << '\n';
}
