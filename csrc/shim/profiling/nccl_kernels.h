// What NCCL calls its kernels.
#pragma once

#include <span>
#include <string>

#include "protocol/records.h"

namespace ph::profiling {

// The symbol of the kernel that does these operations (records of kind NcclOp) in one launch.
std::string nccl_kernel_name(std::span<const Record> operations);

}  // namespace ph::profiling
