/* cuBLASLt: descriptors, and one algorithm for every product. */
#include <string.h>

#include "null.h"

#define CREATES(name)                   \
  NULL_EXPORT int name(void** object) { \
    *object = new_handle();             \
    return 0;                           \
  }
CREATES(cublasLtCreate)
CREATES(cublasLtMatmulDescCreate)
CREATES(cublasLtMatmulPreferenceCreate)
CREATES(cublasLtMatrixLayoutCreate)

/* cublasLtMatmulHeuristicResult_t */
typedef struct {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} Heuristic;

NULL_EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d,
                                               void* preference, int asked, Heuristic* results, int* found) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)asked;
  memset(results, 0, sizeof *results);
  *found = 1;
  return 0;
}
