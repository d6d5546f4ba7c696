/* covers: cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap cuMemUnmap cuMemSetAccess cudaMemcpy
   cudaMemcpy2D cudaMemset cudaMemcpyPeer cudaGraphAddMemsetNode cudaGraphAddMemcpyNode1D */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "program.h"

/* Memory is mapped and unmapped at random, piece by piece, in one range of addresses, as PyTorch's expandable segments
   are. What is copied or filled may lie across any seams; where a part of it is not mapped the call fails. */

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

/* Where a part is not mapped the vendor's library takes an address for one of the host's memory, and may end. */
#ifdef PHANTORA_MODEL
#define EXPECT_IF(is_good, call) EXPECT(call, (is_good) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)
#else
#define EXPECT_IF(is_good, call)             \
  do {                                       \
    if (is_good) EXPECT(call, CUDA_SUCCESS); \
  } while (0)
#endif

#ifdef __SANITIZE_THREAD__ /* with it they take ten times as long */
enum { ROUNDS = 400 };
#else
enum { ROUNDS = 4000 };
#endif
enum { STEPS = 48, MOST_STEPS = 5, WORDS = 256, MARKS = STEPS };

static unsigned long long state = 20261123;
static size_t step;
static CUdeviceptr base;
static int length[STEPS];  /* of the mapping that begins at a step; 0: none does */
static int is_mapped[STEPS];
/* What the words before and after the seam at the end of a step hold; 0: not known. */
static unsigned marks[MARKS];

static unsigned below(unsigned end) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)((state >> 33) % end);
}

static CUmemAllocationProp device_memory(void) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

static CUdeviceptr at(int begin) { return base + begin * step; }

static int all_mapped(size_t offset, size_t bytes) {
  const size_t end = offset + bytes;
  if (end > STEPS * step) return 0;
  for (size_t i = offset / step; i * step < end; ++i) {
    if (!is_mapped[i]) return 0;
  }
  return 1;
}

/* The words around a seam in the range are not known any more. */
static void forget(size_t offset, size_t bytes) {
  for (int i = 0; i < MARKS; ++i) {
    const size_t begin = (i + 1) * step - WORDS * 4, end = (i + 1) * step + WORDS * 4;
    if (begin < offset + bytes && offset < end) marks[i] = 0;
  }
}

static void map_some(void) {
  int begin = below(STEPS), steps = 1 + below(MOST_STEPS), i;
  for (i = 0; i < steps && begin + i < STEPS && !is_mapped[begin + i]; ++i) {
  }
  if ((steps = i) == 0) return;
  CUmemGenericAllocationHandle memory;
  const CUmemAllocationProp properties = device_memory();
  const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemCreate(&memory, steps * step, &properties, 0));
  OK(cuMemMap(at(begin), steps * step, 0, memory, 0));
  OK(cuMemSetAccess(at(begin), steps * step, &access, 1));
  OK(cuMemRelease(memory));
  length[begin] = steps;
  for (i = 0; i < steps; ++i) is_mapped[begin + i] = 1;
}

static void unmap_some(void) {
  const int begin = below(STEPS);
  if (length[begin] == 0) return;
  OK(cuCtxSynchronize());
  OK(cuMemUnmap(at(begin), length[begin] * step));
  forget(begin * step, length[begin] * step);
  for (int i = 0; i < length[begin]; ++i) is_mapped[begin + i] = 0;
  length[begin] = 0;
}

/* A range of up to 12 steps, where it happens to begin. */
static size_t some_range(size_t* bytes) {
  *bytes = 1 + ((size_t)below(12) * step + below(1 << 20)) / 4 * 4;
  return ((size_t)below(STEPS) * step + below(1 << 20)) / 4 * 4;
}

static void fill_some(void) {
  size_t bytes, offset = some_range(&bytes);
  const int is_good = all_mapped(offset, bytes);
  EXPECT_IF(is_good, cuMemsetD8(base + offset, 1, bytes));
  EXPECT_IF(is_good, cudaMemset((void*)(base + offset), 1, bytes));
  (void)cudaGetLastError();
  if (is_good) forget(offset, bytes);
}

static void copy_some(void* host) {
  size_t bytes, to = some_range(&bytes), from = ((size_t)below(STEPS) * step);
  const int is_written = all_mapped(to, bytes), is_good = is_written && all_mapped(from, bytes);
  const int is_apart = to + bytes <= from || from + bytes <= to;
  EXPECT_IF(is_written, cuMemcpyHtoD(base + to, host, bytes));
  if (is_apart) {
    EXPECT_IF(is_good, cuMemcpyDtoD(base + to, base + from, bytes));
    EXPECT_IF(is_good, cudaMemcpy((void*)(base + to), (void*)(base + from), bytes, cudaMemcpyDefault));
    EXPECT_IF(is_good, cudaMemcpyPeer((void*)(base + to), 0, (void*)(base + from), 0, bytes));
  }
  const int has_rows = all_mapped(to, 2 * step + 64);
  EXPECT_IF(has_rows, cudaMemcpy2D((void*)(base + to), step, host, 64, 64, 3, cudaMemcpyDefault));
  (void)cudaGetLastError();
  if (is_written) forget(to, bytes);
  if (has_rows) forget(to, 2 * step + 64);
}

/* Words across a seam hold what was written, and what was copied there from across another. */
static void mark_some(int seam, unsigned value) {
  unsigned words[2 * WORDS];
  const size_t offset = (seam + 1) * step - WORDS * 4;
  for (int i = 0; i < 2 * WORDS; ++i) words[i] = value + i;
  const int is_good = all_mapped(offset, sizeof words);
  EXPECT_IF(is_good, cuMemcpyHtoD(base + offset, words, sizeof words));
  if (is_good) marks[seam] = value;
}

static void move_mark(int from, int to) {
  const size_t source = (from + 1) * step - WORDS * 4, destination = (to + 1) * step - WORDS * 4;
  if (from == to || !all_mapped(source, WORDS * 8) || !all_mapped(destination, WORDS * 8)) return;
  OK(cuMemcpyDtoDAsync(base + destination, base + source, WORDS * 8, NULL));
  marks[to] = marks[from];
}

static void check_mark(int seam) {
  unsigned words[2 * WORDS];
  const size_t offset = (seam + 1) * step - WORDS * 4;
  const int is_good = all_mapped(offset, sizeof words);
  EXPECT_IF(is_good, cuMemcpyDtoH(words, base + offset, sizeof words));
  for (int i = 0; marks[seam] != 0 && i < 2 * WORDS; ++i) CHECK(words[i] == marks[seam] + i);
}

/* A graph's nodes are checked as the calls are. */
static void node_some(void) {
  size_t bytes, offset = some_range(&bytes);
  const int is_good = all_mapped(offset, bytes);
  cudaGraph_t graph;
  cudaGraphNode_t node;
  struct cudaMemsetParams fill = {
      .dst = (void*)(base + offset), .value = 1, .elementSize = 1, .width = bytes, .height = 1};
  REQUIRE(cudaGraphCreate(&graph, 0), cudaSuccess);
  EXPECT_IF(is_good, cudaGraphAddMemsetNode(&node, graph, NULL, 0, &fill));
  EXPECT_IF(is_good, cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, (void*)(base + offset), (void*)(base + offset),
                                              bytes, cudaMemcpyDefault));
  REQUIRE(cudaGraphDestroy(graph), cudaSuccess);
  (void)cudaGetLastError();
}

int main(void) {
  CUcontext context;
  const CUmemAllocationProp properties = device_memory();
  size_t before, after, total;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuMemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  void* host = calloc(12, step);
  OK(cuMemGetInfo(&before, &total));
  OK(cuMemAddressReserve(&base, STEPS * step, 0, 0, 0));
  for (int round = 0; round < ROUNDS; ++round) {
    switch (below(8)) {
      case 0:
      case 1: map_some(); break;
      case 2: unmap_some(); break;
      case 3: fill_some(); break;
      case 4: copy_some(host); break;
      case 5: node_some(); break;
      case 6: mark_some(below(MARKS), 1 + below(1 << 30)); break;
      default: move_mark(below(MARKS), below(MARKS));
    }
    check_mark(below(MARKS));
  }
  for (int i = 0; i < STEPS; ++i) {
    if (length[i] != 0) OK(cuMemUnmap(at(i), length[i] * step));
  }
  OK(cuMemAddressFree(base, STEPS * step));
  OK(cuMemGetInfo(&after, &total));
#ifdef PHANTORA_MODEL
  CHECK(before == after); /* the vendor loads its own kernels when they are needed */
#endif
  free(host);
  return differences;
}
