/* covers: ncclCommInitRank ncclCommInitRankConfig ncclCommInitRankScalable ncclCommSplit ncclCommShrink
   ncclAllReduce ncclReduce ncclReduceScatter ncclAllGather ncclAlltoAll ncclBroadcast ncclGather ncclScatter
   ncclBcast ncclSend ncclRecv ncclGroupStart ncclGroupEnd ncclRedOpCreatePreMulSum ncclRedOpDestroy
   ncclCommAbort */
/* ranks: 2 */
#include <string.h>
#include <unistd.h>

#include "nccl_calls.h"

static int rank;

/* The first rank writes the ids to a file that the second one waits for. */
static void exchange_ids(const char* path, ncclUniqueId* ids, size_t count) {
  char temporary[4096];
  if (rank == 0) {
    for (size_t i = 0; i < count; ++i) OK(ncclGetUniqueId(&ids[i]));
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE* file = fopen(temporary, "wb");
    CHECK(file != NULL && fwrite(ids, sizeof *ids, count, file) == count && fclose(file) == 0);
    CHECK(rename(temporary, path) == 0);
    return;
  }
  FILE* file = NULL;
  for (int tries = 0; file == NULL && tries < 3000; ++tries) {
    file = fopen(path, "rb");
    if (file == NULL) usleep(10000);
  }
  CHECK(file != NULL && fread(ids, sizeof *ids, count, file) == count);
  fclose(file);
}

/* Rank 0 holds 1, 2 and rank 1 holds 10, 20. */
static void check_collectives(ncclComm_t comm, cudaStream_t stream) {
  int *send = make_values(), *receive = make_values();
  set_values(send, rank ? 10 : 1, rank ? 20 : 2);
#define GIVES(first, second, call) \
  set_values(receive, 0, 0);       \
  OK(call);                        \
  check_values(receive, stream, first, second)
  GIVES(11, 22, ncclAllReduce(send, receive, 2, ncclInt32, ncclSum, comm, stream));
  GIVES(10, 20, ncclAllReduce(send, receive, 2, ncclInt32, ncclMax, comm, stream));
  GIVES(rank ? 10 : 0, rank ? 40 : 0, ncclReduce(send, receive, 2, ncclInt32, ncclProd, 1, comm, stream));
  GIVES(rank ? 22 : 11, 0, ncclReduceScatter(send, receive, 1, ncclInt32, ncclSum, comm, stream));
  GIVES(1, 10, ncclAllGather(send, receive, 1, ncclInt32, comm, stream));
  GIVES(rank ? 2 : 1, rank ? 20 : 10, ncclAlltoAll(send, receive, 1, ncclInt32, comm, stream));
  GIVES(10, 20, ncclBroadcast(send, receive, 2, ncclInt32, 1, comm, stream));
  GIVES(rank ? 0 : 1, rank ? 0 : 10, ncclGather(send, receive, 1, ncclInt32, 0, comm, stream));
  GIVES(rank ? 2 : 1, 0, ncclScatter(send, receive, 1, ncclInt32, 0, comm, stream));
#undef GIVES
  set_values(receive, rank, rank);
  OK(ncclBcast(receive, 2, ncclInt32, 1, comm, stream));
  check_values(receive, stream, 1, 1);
  set_values(receive, 0, 0);
  OK(ncclGroupStart());
  OK(ncclRecv(receive, 2, ncclInt32, !rank, comm, stream));
  OK(ncclSend(send, 2, ncclInt32, !rank, comm, stream));
  OK(ncclGroupEnd());
  check_values(receive, stream, rank ? 1 : 10, rank ? 2 : 20);
  CUDA_OK(cudaFree(send));
  CUDA_OK(cudaFree(receive));
}

/* Each rank's contribution is scaled by its own factor, one from the host and one from the device. */
static void check_reduction(ncclComm_t comm, cudaStream_t stream) {
  ncclRedOp_t scaled;
  int factor = 3, *values = make_values(), *on_device = make_values();
  set_values(on_device, 5, 0);
  set_values(values, 1, 2);
  if (rank == 0) OK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclInt32, ncclScalarHostImmediate, comm));
  if (rank == 1) OK(ncclRedOpCreatePreMulSum(&scaled, on_device, ncclInt32, ncclScalarDevice, comm));
  OK(ncclAllReduce(values, values, 2, ncclInt32, scaled, comm, stream));
  check_values(values, stream, 8, 16);
  OK(ncclRedOpDestroy(scaled, comm));
  CUDA_OK(cudaFree(values));
  CUDA_OK(cudaFree(on_device));
}

static void check_parts(ncclComm_t comm, cudaStream_t stream) {
  ncclComm_t reversed, alone, none;
  int place, excluded = 1, itself = rank, *values = make_values();
  OK(ncclCommSplit(comm, 0, -rank, &reversed, NULL));
  OK(ncclCommUserRank(reversed, &place));
  CHECK(place == !rank);
  set_values(values, rank, rank);
  OK(ncclBroadcast(values, values, 2, ncclInt32, 0, reversed, stream));
  check_values(values, stream, 1, 1);
  OK(ncclCommDestroy(reversed));
  OK(ncclCommSplit(comm, -7, 0, &reversed, NULL)); /* a colour like any other */
  OK(ncclCommCount(reversed, &place));
  CHECK(place == 2);
  OK(ncclCommDestroy(reversed));
  OK(ncclCommSplit(comm, rank == 0 ? 5 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
  CHECK((none == NULL) == (rank == 1));
  if (none != NULL) OK(ncclCommAbort(none));
  EXPECT(ncclCommShrink(comm, &itself, 1, &alone, NULL, 0), ncclInvalidArgument);
  if (rank == 0) {
    OK(ncclCommShrink(comm, &excluded, 1, &alone, NULL, 0));
    OK(ncclCommCount(alone, &place));
    CHECK(place == 1);
    OK(ncclCommDestroy(alone));
  }
  CUDA_OK(cudaFree(values));
}

static void check_broadcast(ncclComm_t comm, cudaStream_t stream) {
  int size = 0, place = -1, *values = make_values();
  OK(ncclCommCount(comm, &size));
  OK(ncclCommUserRank(comm, &place));
  CHECK(size == 2 && place == rank);
  set_values(values, rank, rank + 5);
  OK(ncclBroadcast(values, values, 2, ncclInt32, 1, comm, stream));
  check_values(values, stream, 1, 6);
  CUDA_OK(cudaFree(values));
}

/* What stands in one group comes up together, in whichever order each rank asks for it; nothing waits before its end. */
static void check_grouped_creation(ncclComm_t comm, ncclUniqueId* ids, cudaStream_t stream) {
  ncclComm_t made[5] = {NULL}, none = comm;
  ncclConfig_t config = DEFAULTS;
  int *send = make_values(), *receive = make_values();
  set_values(send, rank + 1, 0);
  set_values(receive, 0, 0);
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  for (int i = 0; i < 3; ++i) {
    const int which = rank ? 2 - i : i;
    if (which == 0) OK(ncclCommInitRank(&made[0], 2, ids[0], rank));
    if (which == 1) OK(ncclCommInitRankConfig(&made[1], 2, ids[1], rank, &config));
    if (which == 2) OK(ncclCommInitRankScalable(&made[2], 2, rank, 1, &ids[2], NULL));
  }
  OK(ncclGroupEnd());
  OK(ncclCommSplit(comm, 1, rank, &made[3], NULL));
  OK(ncclCommSplit(comm, rank ? NCCL_SPLIT_NOCOLOR : 7, 0, &none, NULL));
  OK(ncclCommSplit(comm, 2, rank, &made[4], NULL));
  OK(ncclAllReduce(send, receive, 1, ncclInt32, ncclSum, comm, stream));
  OK(ncclGroupEnd());
  check_values(receive, stream, 3, 0);
  CHECK((none == NULL) == (rank == 1));
  if (none != NULL) OK(ncclCommDestroy(none));
  for (int i = 0; i < 5; ++i) check_broadcast(made[i], stream);
  for (int i = 0; i < 5; ++i) OK(ncclCommDestroy(made[i]));
  CUDA_OK(cudaFree(send));
  CUDA_OK(cudaFree(receive));
}

int main(void) {
  ncclComm_t comm;
  cudaStream_t stream;
  int size = 0;
  rank = atoi(getenv("RANK"));
  CUDA_OK(cudaSetDevice(rank));
  CUDA_OK(cudaStreamCreate(&stream));
  ncclUniqueId ids[4];
  exchange_ids(getenv("RENDEZVOUS"), ids, 4);
  OK(ncclCommInitRank(&comm, 2, ids[0], rank));
  OK(ncclCommCount(comm, &size));
  CHECK(size == 2);
  check_collectives(comm, stream);
  check_reduction(comm, stream);
  check_parts(comm, stream);
  check_grouped_creation(comm, ids + 1, stream);
  OK(ncclCommDestroy(comm));
  return differences;
}
