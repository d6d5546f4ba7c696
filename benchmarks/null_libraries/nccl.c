/* NCCL: a rank is told that all others sent what it sent itself, which is what DDP wants to hear when it compares the
   shapes of parameters. So every rank runs alone, whatever the size of its world. Larger messages move nothing. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "null.h"

enum { SMALL_BYTES = 64 << 10, NULL_SYSTEM_ERROR = 2 };  /* ncclSystemError */

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
/* A split of the world, of which PyTorch makes all other groups. What each rank asked for stands in memory that the ranks
   have in common if they were forked from one process; a rank that nobody tells anything gives up. */
enum { MOST_RANKS = 1024, MOST_SPLITS = 64, PATIENCE_MS = 60000 };
typedef struct {
  int color, key;
  atomic_bool told;
} Request;
static Request (*requests)[MOST_RANKS];

static __attribute__((constructor)) void share_requests(void) {
  const size_t bytes = MOST_SPLITS * sizeof *requests;
  requests = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
static bool is_told(const Request* request) {
  for (int waited_ms = 0; !request->told; ++waited_ms) {
    if (waited_ms == PATIENCE_MS) return false;
    usleep(1000);
  }
  return true;
}
NULL_EXPORT int ncclCommSplit(Communicator* comm, int color, int key, Communicator** part, void* config) {
  static int splits = 0;
  if (requests == MAP_FAILED || splits == MOST_SPLITS || comm->size > MOST_RANKS) return NULL_SYSTEM_ERROR;
  Request* asked = requests[splits++];
  asked[comm->rank].color = color;
  asked[comm->rank].key = key;
  asked[comm->rank].told = true;
  int size = 0, rank = 0;
  for (int other = 0; other < comm->size; ++other) {
    if (!is_told(&asked[other])) return NULL_SYSTEM_ERROR;
    if (asked[other].color != color) continue;
    ++size;
    rank += asked[other].key < key || (asked[other].key == key && other < comm->rank);
  }
  return ncclCommInitRankConfig(part, size, (UniqueId){{0}}, rank, config);
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
