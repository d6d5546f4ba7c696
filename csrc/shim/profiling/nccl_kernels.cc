// Source: `best_kernel` in src/device/generate.py of NCCL 2.19 to 2.30. One kernel serves several algorithms, protocols
// and reductions: its name has RING, LL and Sum in their place. Only the tree has one of its own, which a rank does not
// know of: the server chooses the algorithm when the operation starts.
#include "shim/profiling/nccl_kernels.h"

#include <algorithm>

namespace ph::profiling {

namespace {

// By ncclDataType_t. Sums of signed and unsigned integers are the same.
constexpr const char* kTypes[] = {"u8",  "u8",  "u32", "u32",  "u64",    "u64",
                                  "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};

std::string type_of(const Record& operation) {
  const std::uint64_t type = operation.arg[NcclOpArg::Dtype];
  return type < std::size(kTypes) ? kTypes[type] : "unknown";
}

std::string plain_name(const Record& operation) {
  switch (static_cast<NcclOpKind>(operation.flags)) {
    case NcclOpKind::AllReduce: return "AllReduce_Sum_" + type_of(operation) + "_RING_LL";
    case NcclOpKind::Reduce: return "Reduce_Sum_" + type_of(operation) + "_RING_LL";
    case NcclOpKind::ReduceScatter: return "ReduceScatter_Sum_" + type_of(operation) + "_RING_LL";
    case NcclOpKind::AllGather: return "AllGather_RING_LL";
    case NcclOpKind::Broadcast: return "Broadcast_RING_LL";
    case NcclOpKind::Send:
    case NcclOpKind::Recv:
    case NcclOpKind::AllToAll:
    case NcclOpKind::Gather:
    case NcclOpKind::Scatter: return "SendRecv";
  }
  return "Generic";
}

}  // namespace

std::string nccl_kernel_name(std::span<const Record> operations) {
  const std::string name = "ncclDevKernel_" + (operations.empty() ? "Generic" : plain_name(operations.front()));
  return "_Z" + std::to_string(name.size()) + name + "24ncclDevKernelArgsStorageILm4096EE";
}

}  // namespace ph::profiling
