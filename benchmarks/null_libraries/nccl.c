/* NCCL: a rank is told that all others sent what it sent itself, which is what DDP wants to hear when it compares the
   shapes of parameters. So every rank runs alone, whatever the size of its world. Larger messages move nothing. */
#include <stdlib.h>
#include <string.h>

#include "null.h"

enum { SMALL_BYTES = 64 << 10 };

typedef struct {
  int size, rank;
} Communicator;
typedef struct {
  char bytes[128];
} UniqueId;

NULL_EXPORT int ncclGetVersion(int* version) {
  *version = NCCL_VERSION_NUMBER;
  return 0;
}
NULL_EXPORT int ncclCommInitRankConfig(Communicator** comm, int size, UniqueId id, int rank, void* config) {
  (void)id, (void)config;
  *comm = malloc(sizeof **comm);
  **comm = (Communicator){size, rank};
  return 0;
}
NULL_EXPORT int ncclCommInitRank(Communicator** comm, int size, UniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, NULL);
}
/* Who belongs to the part only the others know, so each has one of its own. PyTorch waits until it is there. */
NULL_EXPORT int ncclCommSplit(Communicator* comm, int color, int key, Communicator** part, void* config) {
  (void)comm, (void)color, (void)key;
  return ncclCommInitRankConfig(part, 1, (UniqueId){{0}}, 0, config);
}
NULL_EXPORT int ncclCommCount(const Communicator* comm, int* size) {
  *size = comm->size;
  return 0;
}
NULL_EXPORT int ncclCommUserRank(const Communicator* comm, int* rank) {
  *rank = comm->rank;
  return 0;
}
NULL_EXPORT int ncclCommGetAsyncError(Communicator* comm, int* error) {
  (void)comm;
  *error = 0;
  return 0;
}
NULL_EXPORT const char* ncclGetErrorString(int error) {
  (void)error;
  return "null";
}
NULL_EXPORT const char* ncclGetLastError(Communicator* comm) {
  (void)comm;
  return "";
}

static size_t bytes_of(size_t count, int type) {
  static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return count * sizes[type];
}
static void deliver(void* to, const void* from, size_t bytes) {
  if (bytes <= SMALL_BYTES) memmove(to, from, bytes);
}
NULL_EXPORT int ncclAllGather(const void* from, void* to, size_t count, int type, Communicator* comm, void* stream) {
  (void)stream;
  const size_t bytes = bytes_of(count, type);
  for (int rank = 0; rank < comm->size; ++rank) deliver((char*)to + rank * bytes, from, bytes);
  return 0;
}

/* PyTorch gathers into separate tensors by a group of broadcasts, one from each rank. */
enum { MOST_BROADCASTS = 64 };
static _Thread_local struct {
  int depth, broadcasts;
  void* to[MOST_BROADCASTS];
  const void* own;
  size_t own_bytes;
} group;

NULL_EXPORT int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Communicator* comm,
                              void* stream) {
  (void)stream;
  if (root == comm->rank) {
    group.own = from;
    group.own_bytes = bytes_of(count, type);
  }
  if (group.depth > 0 && group.broadcasts < MOST_BROADCASTS) group.to[group.broadcasts++] = to;
  return 0;
}
NULL_EXPORT int ncclGroupStart(void) {
  if (group.depth++ == 0) group.broadcasts = group.own_bytes = 0;
  return 0;
}
NULL_EXPORT int ncclGroupEnd(void) {
  if (--group.depth > 0) return 0;
  for (int i = 0; i < group.broadcasts && group.own_bytes > 0; ++i) deliver(group.to[i], group.own, group.own_bytes);
  return 0;
}
