/* What the programs of NCCL share: prototypes, and values on the device. */
#pragma once

#include <cuda_runtime_api.h>

#include "program.h"
#include "shim/nccl/nccl_types.h"

#define MOVE const void*, void*, size_t, ncclDataType_t
ncclResult_t ncclGetVersion(int*);
ncclResult_t ncclGetUniqueId(ncclUniqueId*);
const char* ncclGetErrorString(ncclResult_t);
const char* ncclGetLastError(ncclComm_t);
ncclResult_t ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int);
ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*);
ncclResult_t ncclCommInitRankScalable(ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*);
ncclResult_t ncclCommInitAll(ncclComm_t*, int, const int*);
ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*);
ncclResult_t ncclCommShrink(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int);
ncclResult_t ncclCommFinalize(ncclComm_t);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
ncclResult_t ncclCommCount(const ncclComm_t, int*);
ncclResult_t ncclCommCuDevice(const ncclComm_t, int*);
ncclResult_t ncclCommUserRank(const ncclComm_t, int*);
ncclResult_t ncclCommRegister(const ncclComm_t, void*, size_t, void**);
ncclResult_t ncclCommDeregister(const ncclComm_t, void*);
ncclResult_t ncclMemAlloc(void**, size_t);
ncclResult_t ncclMemFree(void*);
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t);
ncclResult_t ncclAllReduce(MOVE, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduce(MOVE, ncclRedOp_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduceScatter(MOVE, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllGather(MOVE, ncclComm_t, cudaStream_t);
ncclResult_t ncclAlltoAll(MOVE, ncclComm_t, cudaStream_t);
ncclResult_t ncclBroadcast(MOVE, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclGather(MOVE, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclScatter(MOVE, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclBcast(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#undef MOVE

#define OK(call) REQUIRE(call, ncclSuccess)
#define CUDA_OK(call) REQUIRE(call, cudaSuccess)

/* What NCCL_CONFIG_INITIALIZER says, as far as the structure is declared here. */
#define DEFAULTS                            \
  {.size = sizeof(ncclConfig_t),            \
   .magic = NCCL_API_MAGIC,                 \
   .version = NCCL_VERSION_CODE,            \
   .blocking = NCCL_CONFIG_UNDEF_INT,       \
   .cgaClusterSize = NCCL_CONFIG_UNDEF_INT, \
   .minCTAs = NCCL_CONFIG_UNDEF_INT,        \
   .maxCTAs = NCCL_CONFIG_UNDEF_INT,        \
   .splitShare = NCCL_CONFIG_UNDEF_INT,     \
   .trafficClass = NCCL_CONFIG_UNDEF_INT}

/* Room for one value of every rank. */
enum { SLOTS = 4 };

static int* make_values(void) {
  int* values;
  CUDA_OK(cudaMalloc((void**)&values, SLOTS * sizeof(int)));
  return values;
}

static void set_values(int* values, int first, int second) {
  const int sent[SLOTS] = {first, second, -1, -1};
  CUDA_OK(cudaMemcpy(values, sent, sizeof sent, cudaMemcpyHostToDevice));
}

/* Waits for the stream; the values that follow the two must be as they were set. */
static void check_values(const int* values, cudaStream_t stream, int first, int second) {
  int seen[SLOTS];
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaMemcpy(seen, values, sizeof seen, cudaMemcpyDeviceToHost));
  if (seen[0] != first || seen[1] != second) {
    fprintf(stderr, "%d, %d instead of %d, %d\n", seen[0], seen[1], first, second);
    exit(1);
  }
  CHECK(seen[2] == -1 && seen[3] == -1);
}
