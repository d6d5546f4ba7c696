/* covers: cublasStrsm_v2 cublasStrsm_v2_64 cublasStrsmBatched cublasStrsmBatched_64 cublasSgetrfBatched
   cublasSgetrsBatched cublasSgeqrfBatched cublasSgelsBatched cublasDtrsm_v2 cublasDtrsm_v2_64 cublasDtrsmBatched
   cublasDtrsmBatched_64 cublasDgetrfBatched cublasDgetrsBatched cublasDgeqrfBatched cublasDgelsBatched
   cublasCtrsm_v2 cublasCtrsm_v2_64 cublasCtrsmBatched cublasCtrsmBatched_64 cublasCgetrfBatched
   cublasCgetrsBatched cublasCgeqrfBatched cublasCgelsBatched cublasZtrsm_v2 cublasZtrsm_v2_64 cublasZtrsmBatched
   cublasZtrsmBatched_64 cublasZgetrfBatched cublasZgetrsBatched cublasZgeqrfBatched cublasZgelsBatched */
#include "cublas_calls.h"

#define TRIANGLE cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t
#define LEFT CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT

/* A unit triangle, a factorisation and the solvers that use it, in one type. */
#define SOLVERS(letter, T, one)                                                                                        \
  cublasStatus_t cublas##letter##trsm_v2(TRIANGLE, int, int, const T*, const T*, int, T*, int);                        \
  cublasStatus_t cublas##letter##trsm_v2_64(TRIANGLE, int64_t, int64_t, const T*, const T*, int64_t, T*, int64_t);     \
  cublasStatus_t cublas##letter##trsmBatched(TRIANGLE, int, int, const T*, const T* const*, int, T* const*, int, int); \
  cublasStatus_t cublas##letter##trsmBatched_64(TRIANGLE, int64_t, int64_t, const T*, const T* const*, int64_t,        \
                                                T* const*, int64_t, int64_t);                                          \
  cublasStatus_t cublas##letter##getrfBatched(cublasHandle_t, int, T* const*, int, int*, int*, int);                   \
  cublasStatus_t cublas##letter##getrsBatched(cublasHandle_t, cublasOperation_t, int, int, const T* const*, int,       \
                                              const int*, T* const*, int, int*, int);                                  \
  cublasStatus_t cublas##letter##geqrfBatched(cublasHandle_t, int, int, T* const*, int, T* const*, int*, int);         \
  cublasStatus_t cublas##letter##gelsBatched(cublasHandle_t, cublasOperation_t, int, int, int, T* const*, int,         \
                                             T* const*, int, int*, int*, int);                                         \
  static void check_##letter(cublasHandle_t handle) {                                                                  \
    const T alpha = one;                                                                                               \
    T *a = make_array(), *b = make_array();                                                                            \
    T *const *matrices = (T* const*)make_pointers(a), *const *sides = (T* const*)make_pointers(b);                     \
    T* const* scales = (T* const*)make_pointers(make_array());                                                         \
    int *pivots = make_array(), *device_info = make_array(), info = -1;                                                \
    OK(cublas##letter##trsm_v2(handle, LEFT, 8, 4, &alpha, a, 8, b, 8));                                               \
    OK(cublas##letter##trsm_v2_64(handle, LEFT, 8, 4, &alpha, a, 8, b, 8));                                            \
    OK(cublas##letter##trsmBatched(handle, LEFT, 8, 4, &alpha, (const T* const*)matrices, 8, sides, 8, BATCH));        \
    OK(cublas##letter##trsmBatched_64(handle, LEFT, 8, 4, &alpha, (const T* const*)matrices, 8, sides, 8, BATCH));     \
    OK(cublas##letter##getrfBatched(handle, 8, matrices, 8, pivots, device_info, BATCH));                              \
    OK(cublas##letter##getrsBatched(handle, CUBLAS_OP_N, 8, 4, (const T* const*)matrices, 8, pivots, sides, 8, &info,  \
                                    BATCH));                                                                           \
    CHECK(info == 0);                                                                                                  \
    info = -1;                                                                                                         \
    OK(cublas##letter##geqrfBatched(handle, 8, 8, matrices, 8, scales, &info, BATCH));                                 \
    CHECK(info == 0);                                                                                                  \
    info = -1;                                                                                                         \
    OK(cublas##letter##gelsBatched(handle, CUBLAS_OP_N, 8, 8, 1, matrices, 8, sides, 8, &info, device_info, BATCH));   \
    CHECK(info == 0);                                                                                                  \
  }

SOLVERS(S, float, 1)
SOLVERS(D, double, 1)
SOLVERS(C, cuComplex, {1})
SOLVERS(Z, cuDoubleComplex, {1})

int main(void) {
  cublasHandle_t handle;
  OK(cublasCreate_v2(&handle));
  check_S(handle), check_D(handle), check_C(handle), check_Z(handle);
  REQUIRE(cudaDeviceSynchronize(), cudaSuccess);
  OK(cublasDestroy_v2(handle));
  return differences;
}
