// Addresses that the program has reserved itself.
#pragma once

#include <cstddef>

#include "shim/cuda/driver.h"

namespace ph::driver {

struct Reservation {
  CUdeviceptr base;
  std::size_t bytes;
};
// The one that holds `address`; false: none does.
bool find_reservation(CUdeviceptr address, Reservation& out) noexcept;

}  // namespace ph::driver
