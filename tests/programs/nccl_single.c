/* covers: ncclGetVersion ncclGetUniqueId ncclGetErrorString ncclGetLastError ncclCommInitRank
   ncclCommInitRankConfig ncclCommInitRankScalable ncclCommInitAll ncclCommSplit ncclCommShrink ncclCommFinalize
   ncclCommDestroy ncclCommAbort ncclCommGetAsyncError ncclCommCount ncclCommCuDevice ncclCommUserRank
   ncclCommRegister ncclCommDeregister ncclMemAlloc ncclMemFree ncclRedOpCreatePreMulSum ncclRedOpDestroy
   ncclAllReduce ncclReduce ncclReduceScatter ncclAllGather ncclAlltoAll ncclBroadcast ncclGather ncclScatter
   ncclBcast ncclSend ncclRecv ncclGroupStart ncclGroupEnd */
#include <string.h>

#include "nccl_calls.h"

static ncclComm_t make_communicator(void) {
  ncclUniqueId id;
  ncclComm_t comm;
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRank(&comm, 1, id, 0));
  return comm;
}

static void check_place(ncclComm_t comm) {
  int rank = -1, size = -1, device = -1;
  ncclResult_t state = ncclInternalError;
  OK(ncclCommUserRank(comm, &rank));
  OK(ncclCommCount(comm, &size));
  OK(ncclCommCuDevice(comm, &device));
  CHECK(rank == 0 && size == 1 && device == 0);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
}

/* Every way to make a communicator, and what each refuses. */
static void check_creation(void) {
  ncclUniqueId id;
  ncclComm_t comm;
  ncclConfig_t config = DEFAULTS, blank = DEFAULTS, zeros = {sizeof zeros, NCCL_API_MAGIC, NCCL_VERSION_CODE};
  const int devices[1] = {0}, absent[1] = {1000};
  OK(ncclGetUniqueId(&id));
  EXPECT(ncclGetUniqueId(NULL), ncclInvalidArgument);
  EXPECT(ncclCommInitRank(&comm, 1, id, 1), ncclInvalidArgument);
  EXPECT(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT(ncclCommInitRank(&comm, 1, id, -1), ncclInvalidArgument);
  EXPECT(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument);
  blank.magic = 0;
  EXPECT(ncclCommInitRankConfig(&comm, 1, id, 0, &blank), ncclInvalidArgument);
  EXPECT(ncclCommInitRankConfig(&comm, 1, id, 0, &zeros), ncclInvalidArgument); /* no thread blocks at all */
  config.blocking = 2;
  EXPECT(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  config.blocking = 1;
  OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  check_place(comm);
  OK(ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRankScalable(&comm, 1, 0, 1, &id, NULL));
  check_place(comm);
  OK(ncclCommAbort(comm));
  OK(ncclCommInitAll(&comm, 1, devices));
  check_place(comm);
  OK(ncclCommDestroy(comm));
  EXPECT(ncclCommInitAll(&comm, 1, absent), ncclInvalidArgument);
  EXPECT(ncclCommInitAll(&comm, -1, NULL), ncclInvalidArgument);
  EXPECT(ncclCommInitAll(NULL, 1, NULL), ncclInvalidArgument);
  OK(ncclCommDestroy(NULL));
  OK(ncclCommAbort(NULL));
}

static void check_split(ncclComm_t comm) {
  ncclComm_t part, none = comm;
  int self = 0;
  OK(ncclCommSplit(comm, 3, 0, &part, NULL));
  check_place(part);
  OK(ncclCommDestroy(part));
  OK(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
  CHECK(none == NULL);
  OK(ncclCommSplit(comm, -2, 0, &part, NULL)); /* every other number is a colour */
  check_place(part);
  OK(ncclCommDestroy(part));
  EXPECT(ncclCommSplit(NULL, 0, 0, &part, NULL), ncclInvalidArgument);
  EXPECT(ncclCommShrink(comm, &self, 0, &part, NULL, 0), ncclInvalidArgument);
  EXPECT_OF_OURS(ncclCommShrink(NULL, &self, 1, &part, NULL, 0), ncclInvalidArgument);
}

/* With one rank every collective is a copy. */
static void check_collectives(ncclComm_t comm, cudaStream_t stream) {
  int *send = make_values(), *receive = make_values();
  set_values(send, 5, 6);
#define COPIES(call)         \
  set_values(receive, 0, 0); \
  OK(call);                  \
  check_values(receive, stream, 5, 6)
  COPIES(ncclAllReduce(send, receive, 2, ncclInt32, ncclSum, comm, stream));
  COPIES(ncclReduce(send, receive, 2, ncclInt32, ncclMax, 0, comm, stream));
  COPIES(ncclReduceScatter(send, receive, 2, ncclInt32, ncclProd, comm, stream));
  COPIES(ncclAllGather(send, receive, 8, ncclUint8, comm, stream));
  COPIES(ncclAlltoAll(send, receive, 2, ncclInt32, comm, stream));
  COPIES(ncclBroadcast(send, receive, 1, ncclInt64, 0, comm, stream));
  COPIES(ncclGather(send, receive, 2, ncclInt32, 0, comm, stream));
  COPIES(ncclScatter(send, receive, 2, ncclInt32, 0, comm, stream));
#undef COPIES
  OK(ncclBcast(receive, 2, ncclInt32, 0, comm, stream));
  check_values(receive, stream, 5, 6);
  set_values(receive, 0, 0);
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclRecv(receive, 2, ncclInt32, 0, comm, stream));
  OK(ncclSend(send, 2, ncclInt32, 0, comm, stream));
  OK(ncclGroupEnd());
  OK(ncclGroupEnd());
  check_values(receive, stream, 5, 6);
  OK(ncclAllReduce(send, send, 0, ncclInt32, ncclSum, comm, stream)); /* of nothing */
  check_values(send, stream, 5, 6);
  CUDA_OK(cudaFree(send));
  CUDA_OK(cudaFree(receive));
}

static void check_reduction(ncclComm_t comm, cudaStream_t stream) {
  ncclRedOp_t scaled;
  int factor = 3, *values = make_values();
  set_values(values, 5, 6);
  OK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclInt32, ncclScalarHostImmediate, comm));
  OK(ncclAllReduce(values, values, 2, ncclInt32, scaled, comm, stream));
  check_values(values, stream, 15, 18);
  OK(ncclRedOpDestroy(scaled, comm));
  EXPECT(ncclAllReduce(values, values, 2, ncclInt32, scaled, comm, stream), ncclInvalidArgument);
  EXPECT(ncclRedOpDestroy(scaled, comm), ncclInvalidArgument);
  EXPECT(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
  CUDA_OK(cudaFree(values));
}

static void check_memory(ncclComm_t comm) {
  void *memory, *registered;
  struct cudaPointerAttributes of;
  OK(ncclMemAlloc(&memory, 1 << 20));
  CUDA_OK(cudaPointerGetAttributes(&of, memory));
  CHECK(of.type == cudaMemoryTypeDevice);
  OK(ncclCommRegister(comm, memory, 1 << 20, &registered));
  OK(ncclCommDeregister(comm, registered));
  OK(ncclCommDeregister(comm, NULL));
  OK(ncclMemFree(memory));
}

static void check_misuse(ncclComm_t comm, cudaStream_t stream) {
  int* values = make_values();
  set_values(values, 1, 2);
  EXPECT(ncclAllReduce(values, values, 1, ncclInt32, ncclSum, NULL, stream), ncclInvalidArgument);
  CHECK(strlen(ncclGetLastError(comm)) > 0);
  EXPECT(ncclAllReduce(values, values, 1, (ncclDataType_t)99, ncclSum, comm, stream), ncclInvalidArgument);
  EXPECT(ncclAllReduce(values, values, 1, ncclInt32, (ncclRedOp_t)99, comm, stream), ncclInvalidArgument);
  EXPECT(ncclReduce(values, values, 1, ncclInt32, ncclSum, 1, comm, stream), ncclInvalidArgument);
  EXPECT(ncclBroadcast(values, values, 1, ncclInt32, -1, comm, stream), ncclInvalidArgument);
  EXPECT(ncclSend(values, 1, ncclInt32, 7, comm, stream), ncclInvalidArgument);
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  OK(ncclGroupStart());
  EXPECT(ncclRecv(values, 1, ncclInt32, 7, comm, stream), ncclInvalidArgument);
  EXPECT(ncclGroupEnd(), ncclInvalidArgument); /* what failed inside */
  EXPECT(ncclCommCount(comm, NULL), ncclInvalidArgument);
  EXPECT(ncclCommUserRank(NULL, values), ncclInvalidArgument);
  EXPECT(ncclCommGetAsyncError(comm, NULL), ncclInvalidArgument);
  check_values(values, stream, 1, 2);
  CUDA_OK(cudaFree(values));
}

static void check_texts(void) {
  int version = 0;
  OK(ncclGetVersion(&version));
  CHECK(version / 10000 == 2);
  EXPECT(ncclGetVersion(NULL), ncclInvalidArgument);
  CHECK(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
  CHECK(strlen(ncclGetErrorString(ncclInvalidArgument)) > 0);
}

int main(void) {
  cudaStream_t stream;
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaStreamCreate(&stream));
  check_texts();
  check_creation();
  ncclComm_t comm = make_communicator();
  check_place(comm);
  check_split(comm);
  check_collectives(comm, stream);
  check_collectives(comm, NULL);
  check_reduction(comm, stream);
  check_memory(comm);
  check_misuse(comm, stream);
  OK(ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
#ifdef PHANTORA_MODEL
  int size;
  EXPECT(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT(ncclCommCount(comm, &size), ncclInvalidArgument);
  EXPECT(ncclGroupStart(), ncclSuccess);
  EXPECT(ncclAllReduce(&size, &size, 1, ncclInt32, ncclSum, comm, stream), ncclInvalidArgument);
  EXPECT(ncclGroupEnd(), ncclInvalidArgument);
#endif
  return differences;
}
