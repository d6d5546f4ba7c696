// NCCL's operations: collectives, point to point, groups and custom reductions.
#include <cstring>

#include "shim/calls/library.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/failure_text.h"
#include "shim/nccl/group.h"

using ph::NcclOpKind;
using ph::nccl::Communicator;
using ph::nccl::cost_of_operation;
using ph::nccl::CustomReduction;
using ph::nccl::failed;
using ph::nccl::submit;

extern "C" {

PH_EXPORT ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) noexcept {
  PH_CALL(ncclAllReduce, cost_of_operation(comm, stream));
  return submit({"ncclAllReduce", NcclOpKind::AllReduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream});
}

PH_EXPORT ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                     int root, ncclComm_t comm, cudaStream_t stream) noexcept {
  PH_CALL(ncclBroadcast, cost_of_operation(comm, stream));
  return submit(
      {"ncclBroadcast", NcclOpKind::Broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}

PH_EXPORT ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream) noexcept {
  PH_CALL(ncclBcast, cost_of_operation(comm, stream));
  return submit({"ncclBcast", NcclOpKind::Broadcast, buff, buff, count, datatype, ncclSum, root, comm, stream});
}

PH_EXPORT ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                  ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) noexcept {
  PH_CALL(ncclReduce, cost_of_operation(comm, stream));
  return submit({"ncclReduce", NcclOpKind::Reduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream});
}

PH_EXPORT ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                                     ncclComm_t comm, cudaStream_t stream) noexcept {
  PH_CALL(ncclAllGather, cost_of_operation(comm, stream));
  return submit(
      {"ncclAllGather", NcclOpKind::AllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm, stream});
}

PH_EXPORT ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                         cudaStream_t stream) noexcept {
  PH_CALL(ncclReduceScatter, cost_of_operation(comm, stream));
  return submit(
      {"ncclReduceScatter", NcclOpKind::ReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream});
}

PH_EXPORT ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                    ncclComm_t comm, cudaStream_t stream) noexcept {
  PH_CALL(ncclAlltoAll, cost_of_operation(comm, stream));
  return submit({"ncclAlltoAll", NcclOpKind::AllToAll, sendbuff, recvbuff, count, datatype, ncclSum, 0, comm, stream});
}

PH_EXPORT ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                  ncclComm_t comm, cudaStream_t stream) noexcept {
  PH_CALL(ncclGather, cost_of_operation(comm, stream));
  return submit({"ncclGather", NcclOpKind::Gather, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}

PH_EXPORT ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                   int root, ncclComm_t comm, cudaStream_t stream) noexcept {
  PH_CALL(ncclScatter, cost_of_operation(comm, stream));
  return submit({"ncclScatter", NcclOpKind::Scatter, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}

PH_EXPORT ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                cudaStream_t stream) noexcept {
  PH_CALL(ncclSend, cost_of_operation(comm, stream));
  return submit({"ncclSend", NcclOpKind::Send, sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream});
}

PH_EXPORT ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                cudaStream_t stream) noexcept {
  PH_CALL(ncclRecv, cost_of_operation(comm, stream));
  return submit({"ncclRecv", NcclOpKind::Recv, nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream});
}

PH_EXPORT ncclResult_t ncclGroupStart() noexcept {
  PH_CALL(ncclGroupStart);
  ph::nccl::start_group();
  return ncclSuccess;
}

PH_EXPORT ncclResult_t ncclGroupEnd() noexcept {
  PH_CALL(ncclGroupEnd);
  return ph::nccl::end_group();
}

PH_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                                ncclScalarResidence_t residence, ncclComm_t comm) noexcept {
  PH_CALL(ncclRedOpCreatePreMulSum);
  Communicator* found = ph::nccl::find(comm);
  if (!found) return failed(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : the communicator is null or destroyed");
  if (!op || !scalar) return failed(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : op or scalar is null");
  if (datatype >= ncclNumTypes) {
    return failed(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : invalid type " + std::to_string(datatype));
  }
  CustomReduction custom{true, datatype, {ph::ReductionKind::PremulSum, {}, nullptr}};
  if (residence == ncclScalarHostImmediate) {
    std::memcpy(custom.reduction.factor.data(), scalar, ph::element_bytes(static_cast<ph::ElementType>(datatype)));
  } else {
    custom.reduction.factor_on_device = scalar;
  }
  std::size_t index = 0;
  while (index < found->reductions.size() && found->reductions[index].alive) ++index;
  if (index == found->reductions.size()) found->reductions.emplace_back();
  found->reductions[index] = custom;
  *op = static_cast<ncclRedOp_t>(ncclNumOps + index);
  return ncclSuccess;
}

PH_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) noexcept {
  PH_CALL(ncclRedOpDestroy);
  Communicator* found = ph::nccl::find(comm);
  if (!found) return failed(ncclInvalidArgument, "ncclRedOpDestroy : the communicator is null or destroyed");
  const auto value = static_cast<unsigned>(op);
  if (value < ncclNumOps) return failed(ncclInvalidArgument, "ncclRedOpDestroy : operation is a NCCL builtin.");
  if (value - ncclNumOps >= found->reductions.size() || !found->reductions[value - ncclNumOps].alive) {
    return failed(ncclInvalidArgument, "ncclRedOpDestroy : operation unknown to this communicator.");
  }
  found->reductions[value - ncclNumOps].alive = false;
  return ncclSuccess;
}

}  // extern "C"
