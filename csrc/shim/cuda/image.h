// What a code object (cubin, fat binary, PTX text) tells without being run: an identity and its kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/cuda/machine_code.h"

namespace ph::driver {

struct ImageKernel {
  std::string name;
  std::uint32_t registers = 0;
  std::uint32_t static_shared_bytes = 0;
  CodeAccesses accesses;
  std::vector<std::uint16_t> parameter_bytes;  // in order
  bool lists_parameters = false;               // else it is not known how many there are
};

struct Image {
  std::uint64_t hash = 0;
  const void* data = nullptr;   // the caller's
  std::size_t bytes = 0;
  bool lists_kernels = false;  // false: a fat binary, any name may be in it
  std::vector<ImageKernel> kernels;
};

// False: neither ELF nor fat binary nor PTX.
bool read_image(const void* data, Image& image);

}  // namespace ph::driver
