// NCCL groups: operations and new communicators wait, per thread, until the outermost group ends.
#pragma once

#include "protocol/records.h"
#include "shim/core/api.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/nccl_types.h"

namespace ph::nccl {

// A call as it came; `root`: also the peer of Send and Recv.
struct Request {
  const char* function;
  NcclOpKind kind;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int root;
  ncclComm_t comm;
  cudaStream_t stream;
};

// What the host takes for a call that asks for an operation. One that shares a launch with others of the thread's group
// only joins a list: that is under a microsecond (assumed), and paid for by the first of them.
HostCost cost_of_operation(ncclComm_t comm, cudaStream_t stream) noexcept;

// Checks the arguments as NCCL does and issues the operation, now or when the thread's group ends.
ncclResult_t submit(const Request& request) noexcept;
// Makes the communicator, now or when the thread's group ends.
ncclResult_t submit(const Membership& membership) noexcept;

void start_group() noexcept;
ncclResult_t end_group() noexcept;

}  // namespace ph::nccl
