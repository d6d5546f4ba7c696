/* covers: cusolverDnCreateParams cusolverDnDestroyParams cusolverDnXpotrf_bufferSize cusolverDnXpotrf
   cusolverDnXpotrs cusolverDnXgeqrf_bufferSize cusolverDnXgeqrf cusolverDnXsyevd_bufferSize cusolverDnXsyevd
   cusolverDnXsyevBatched_bufferSize cusolverDnXsyevBatched cusolverDnXgeev_bufferSize cusolverDnXgeev
   cusolverDnCreateGesvdjInfo cusolverDnDestroyGesvdjInfo cusolverDnXgesvdjSetTolerance
   cusolverDnXgesvdjSetMaxSweeps cusolverDnXgesvdjSetSortEig cusolverDnSgetrf_bufferSize cusolverDnSgetrf
   cusolverDnSgetrs cusolverDnSpotrfBatched cusolverDnSpotrsBatched cusolverDnSgeqrf_bufferSize cusolverDnSgeqrf
   cusolverDnSorgqr_bufferSize cusolverDnSorgqr cusolverDnSormqr_bufferSize cusolverDnSormqr
   cusolverDnSgesvd_bufferSize cusolverDnSgesvd cusolverDnSgesvdj_bufferSize cusolverDnSgesvdj
   cusolverDnSgesvdjBatched_bufferSize cusolverDnSgesvdjBatched cusolverDnSgesvdaStridedBatched_bufferSize
   cusolverDnSgesvdaStridedBatched cusolverDnDgetrf_bufferSize cusolverDnDgetrf cusolverDnDgetrs
   cusolverDnDpotrfBatched cusolverDnDpotrsBatched cusolverDnDgeqrf_bufferSize cusolverDnDgeqrf
   cusolverDnDorgqr_bufferSize cusolverDnDorgqr cusolverDnDormqr_bufferSize cusolverDnDormqr
   cusolverDnDgesvd_bufferSize cusolverDnDgesvd cusolverDnDgesvdj_bufferSize cusolverDnDgesvdj
   cusolverDnDgesvdjBatched_bufferSize cusolverDnDgesvdjBatched cusolverDnDgesvdaStridedBatched_bufferSize
   cusolverDnDgesvdaStridedBatched cusolverDnCgetrf_bufferSize cusolverDnCgetrf cusolverDnCgetrs
   cusolverDnCpotrfBatched cusolverDnCpotrsBatched cusolverDnCgeqrf_bufferSize cusolverDnCgeqrf
   cusolverDnCungqr_bufferSize cusolverDnCungqr cusolverDnCunmqr_bufferSize cusolverDnCunmqr
   cusolverDnCgesvd_bufferSize cusolverDnCgesvd cusolverDnCgesvdj_bufferSize cusolverDnCgesvdj
   cusolverDnCgesvdjBatched_bufferSize cusolverDnCgesvdjBatched cusolverDnCgesvdaStridedBatched_bufferSize
   cusolverDnCgesvdaStridedBatched cusolverDnZgetrf_bufferSize cusolverDnZgetrf cusolverDnZgetrs
   cusolverDnZpotrfBatched cusolverDnZpotrsBatched cusolverDnZgeqrf_bufferSize cusolverDnZgeqrf
   cusolverDnZungqr_bufferSize cusolverDnZungqr cusolverDnZunmqr_bufferSize cusolverDnZunmqr
   cusolverDnZgesvd_bufferSize cusolverDnZgesvd cusolverDnZgesvdj_bufferSize cusolverDnZgesvdj
   cusolverDnZgesvdjBatched_bufferSize cusolverDnZgesvdjBatched cusolverDnZgesvdaStridedBatched_bufferSize
   cusolverDnZgesvdaStridedBatched cusolverDnXsytrs_bufferSize cusolverDnXsytrs cusolverDnCreateSyevjInfo
   cusolverDnDestroySyevjInfo cusolverDnSsytrf_bufferSize cusolverDnSsytrf cusolverDnSsyevj_bufferSize
   cusolverDnSsyevj cusolverDnSsyevjBatched_bufferSize cusolverDnSsyevjBatched cusolverDnDsytrf_bufferSize
   cusolverDnDsytrf cusolverDnDsyevj_bufferSize cusolverDnDsyevj cusolverDnDsyevjBatched_bufferSize
   cusolverDnDsyevjBatched cusolverDnCsytrf_bufferSize cusolverDnCsytrf cusolverDnCheevj_bufferSize cusolverDnCheevj
   cusolverDnCheevjBatched_bufferSize cusolverDnCheevjBatched cusolverDnZsytrf_bufferSize cusolverDnZsytrf
   cusolverDnZheevj_bufferSize cusolverDnZheevj cusolverDnZheevjBatched_bufferSize cusolverDnZheevjBatched */
#include <cuComplex.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

#include "program.h"
#include "shim/cusolver/cusolver_types.h"

#define OK(call) REQUIRE(call, CUSOLVER_STATUS_SUCCESS)
#define HANDLE cusolverDnHandle_t
#define STATUS cusolverStatus_t

STATUS cusolverDnCreate(HANDLE*);
STATUS cusolverDnDestroy(HANDLE);
STATUS cusolverDnCreateParams(cusolverDnParams_t*);
STATUS cusolverDnDestroyParams(cusolverDnParams_t);
STATUS cusolverDnCreateGesvdjInfo(gesvdjInfo_t*);
STATUS cusolverDnDestroyGesvdjInfo(gesvdjInfo_t);
STATUS cusolverDnXgesvdjSetTolerance(gesvdjInfo_t, double);
STATUS cusolverDnXgesvdjSetMaxSweeps(gesvdjInfo_t, int);
STATUS cusolverDnXgesvdjSetSortEig(gesvdjInfo_t, int);
STATUS cusolverDnXpotrf_bufferSize(HANDLE, cusolverDnParams_t, cublasFillMode_t, int64_t, cudaDataType, const void*,
                                   int64_t, cudaDataType, size_t*, size_t*);
STATUS cusolverDnXpotrf(HANDLE, cusolverDnParams_t, cublasFillMode_t, int64_t, cudaDataType, void*, int64_t,
                        cudaDataType, void*, size_t, void*, size_t, int*);
STATUS cusolverDnXpotrs(HANDLE, cusolverDnParams_t, cublasFillMode_t, int64_t, int64_t, cudaDataType, const void*,
                        int64_t, cudaDataType, void*, int64_t, int*);
STATUS cusolverDnXgeqrf_bufferSize(HANDLE, cusolverDnParams_t, int64_t, int64_t, cudaDataType, const void*, int64_t,
                                   cudaDataType, const void*, cudaDataType, size_t*, size_t*);
STATUS cusolverDnXgeqrf(HANDLE, cusolverDnParams_t, int64_t, int64_t, cudaDataType, void*, int64_t, cudaDataType, void*,
                        cudaDataType, void*, size_t, void*, size_t, int*);
STATUS cusolverDnXsyevd_bufferSize(HANDLE, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t,
                                   cudaDataType, const void*, int64_t, cudaDataType, const void*, cudaDataType, size_t*,
                                   size_t*);
STATUS cusolverDnXsyevd(HANDLE, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t, cudaDataType, void*,
                        int64_t, cudaDataType, void*, cudaDataType, void*, size_t, void*, size_t, int*);
STATUS cusolverDnXsyevBatched_bufferSize(HANDLE, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t,
                                         cudaDataType, const void*, int64_t, cudaDataType, const void*, cudaDataType,
                                         size_t*, size_t*, int64_t);
STATUS cusolverDnXsyevBatched(HANDLE, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t, cudaDataType,
                              void*, int64_t, cudaDataType, void*, cudaDataType, void*, size_t, void*, size_t, int*,
                              int64_t);

STATUS cusolverDnXgeev_bufferSize(HANDLE, cusolverDnParams_t, cusolverEigMode_t, cusolverEigMode_t, int64_t,
                                  cudaDataType, const void*, int64_t, cudaDataType, const void*, cudaDataType,
                                  const void*, int64_t, cudaDataType, const void*, int64_t, cudaDataType, size_t*,
                                  size_t*);
STATUS cusolverDnXgeev(HANDLE, cusolverDnParams_t, cusolverEigMode_t, cusolverEigMode_t, int64_t, cudaDataType, void*,
                       int64_t, cudaDataType, void*, cudaDataType, void*, int64_t, cudaDataType, void*, int64_t,
                       cudaDataType, void*, size_t, void*, size_t, int*);
STATUS cusolverDnXsytrs_bufferSize(HANDLE, cublasFillMode_t, int64_t, int64_t, cudaDataType, const void*, int64_t,
                                   const int64_t*, cudaDataType, void*, int64_t, size_t*, size_t*);
STATUS cusolverDnXsytrs(HANDLE, cublasFillMode_t, int64_t, int64_t, cudaDataType, const void*, int64_t, const int64_t*,
                        cudaDataType, void*, int64_t, void*, size_t, void*, size_t, int*);
STATUS cusolverDnCreateSyevjInfo(syevjInfo_t*);
STATUS cusolverDnDestroySyevjInfo(syevjInfo_t);

static HANDLE handle;
static int *info, *pivots;
static void *a, *b, *work;
enum { N = 64, BATCH = 4 };

/* Whatever the calls before have made of them. */
static void clear_matrices(void) {
  REQUIRE(cudaMemset(a, 0, 1 << 20), cudaSuccess);
  REQUIRE(cudaMemset(b, 0, 1 << 20), cudaSuccess);
}

static int read_info(void) {
  int value = 1;
  REQUIRE(cudaMemcpy(&value, info, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  return value;
}

static void check_info(void) { CHECK(read_info() == 0); }

/* The calls of one precision. What is in the matrices makes no difference to the codes. */
#define PRECISION(X, T, R, gqr, mqr)                                                                                   \
  STATUS cusolverDn##X##getrf_bufferSize(HANDLE, int, int, T*, int, int*);                                             \
  STATUS cusolverDn##X##getrf(HANDLE, int, int, T*, int, T*, int*, int*);                                              \
  STATUS cusolverDn##X##getrs(HANDLE, cublasOperation_t, int, int, const T*, int, const int*, T*, int, int*);          \
  STATUS cusolverDn##X##potrfBatched(HANDLE, cublasFillMode_t, int, T**, int, int*, int);                              \
  STATUS cusolverDn##X##potrsBatched(HANDLE, cublasFillMode_t, int, int, T**, int, T**, int, int*, int);               \
  STATUS cusolverDn##X##geqrf_bufferSize(HANDLE, int, int, T*, int, int*);                                             \
  STATUS cusolverDn##X##geqrf(HANDLE, int, int, T*, int, T*, T*, int, int*);                                           \
  STATUS cusolverDn##X##gqr##_bufferSize(HANDLE, int, int, int, const T*, int, const T*, int*);                        \
  STATUS cusolverDn##X##gqr(HANDLE, int, int, int, T*, int, const T*, T*, int, int*);                                  \
  STATUS cusolverDn##X##mqr##_bufferSize(HANDLE, cublasSideMode_t, cublasOperation_t, int, int, int, const T*, int,    \
                                         const T*, const T*, int, int*);                                               \
  STATUS cusolverDn##X##mqr(HANDLE, cublasSideMode_t, cublasOperation_t, int, int, int, const T*, int, const T*, T*,   \
                            int, T*, int, int*);                                                                       \
  STATUS cusolverDn##X##gesvd_bufferSize(HANDLE, int, int, int*);                                                      \
  STATUS cusolverDn##X##gesvd(HANDLE, signed char, signed char, int, int, T*, int, R*, T*, int, T*, int, T*, int, R*,  \
                              int*);                                                                                   \
  STATUS cusolverDn##X##gesvdj_bufferSize(HANDLE, cusolverEigMode_t, int, int, int, const T*, int, const R*, const T*, \
                                          int, const T*, int, int*, gesvdjInfo_t);                                     \
  STATUS cusolverDn##X##gesvdj(HANDLE, cusolverEigMode_t, int, int, int, T*, int, R*, T*, int, T*, int, T*, int, int*, \
                               gesvdjInfo_t);                                                                          \
  STATUS cusolverDn##X##gesvdjBatched_bufferSize(HANDLE, cusolverEigMode_t, int, int, const T*, int, const R*,         \
                                                 const T*, int, const T*, int, int*, gesvdjInfo_t, int);               \
  STATUS cusolverDn##X##gesvdjBatched(HANDLE, cusolverEigMode_t, int, int, T*, int, R*, T*, int, T*, int, T*, int,     \
                                      int*, gesvdjInfo_t, int);                                                        \
  STATUS cusolverDn##X##gesvdaStridedBatched_bufferSize(HANDLE, cusolverEigMode_t, int, int, int, const T*, int,       \
                                                        long long, const R*, long long, const T*, int, long long,      \
                                                        const T*, int, long long, int*, int);                          \
  STATUS cusolverDn##X##gesvdaStridedBatched(HANDLE, cusolverEigMode_t, int, int, int, const T*, int, long long, R*,   \
                                             long long, T*, int, long long, T*, int, long long, T*, int, int*,         \
                                             double*, int);                                                            \
  static void check_##X(gesvdjInfo_t jacobi) {                                                                         \
    int size = 0;                                                                                                      \
    T *vector = (T*)b, *u = (T*)b + 4 * N * N, *v = (T*)b + 8 * N * N;                                                 \
    R* values = (R*)b;                                                                                                 \
    double norms[BATCH];                                                                                               \
    T** matrices = (T**)pivots;                                                                                        \
    clear_matrices();                                                                                                  \
    OK(cusolverDn##X##getrf_bufferSize(handle, N, N, a, N, &size));                                                    \
    OK(cusolverDn##X##getrf(handle, N, N, a, N, work, pivots, info));                                                  \
    OK(cusolverDn##X##getrs(handle, CUBLAS_OP_N, N, 2, a, N, pivots, vector, N, info));                                \
    OK(cusolverDn##X##geqrf_bufferSize(handle, N, N, a, N, &size));                                                    \
    OK(cusolverDn##X##geqrf(handle, N, N, a, N, vector, work, size, info));                                            \
    OK(cusolverDn##X##gqr##_bufferSize(handle, N, N, N, a, N, vector, &size));                                         \
    OK(cusolverDn##X##gqr(handle, N, N, N, a, N, vector, work, size, info));                                           \
    OK(cusolverDn##X##mqr##_bufferSize(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_N, N, N, N, a, N, vector, u, N, &size));    \
    OK(cusolverDn##X##mqr(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_N, N, N, N, a, N, vector, u, N, work, size, info));      \
    OK(cusolverDn##X##gesvd_bufferSize(handle, N, N, &size));                                                          \
    OK(cusolverDn##X##gesvd(handle, 'A', 'A', N, N, a, N, values, u, N, v, N, work, size, NULL, info));                \
    OK(cusolverDn##X##gesvdj_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, 0, N, N, a, N, values, u, N, v, N, &size,    \
                                        jacobi));                                                                      \
    OK(cusolverDn##X##gesvdj(handle, CUSOLVER_EIG_MODE_VECTOR, 0, N, N, a, N, values, u, N, v, N, work, size, info,    \
                             jacobi));                                                                                 \
    OK(cusolverDn##X##gesvdjBatched_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, 16, 16, a, 16, values, u, 16, v, 16,  \
                                               &size, jacobi, BATCH));                                                 \
    OK(cusolverDn##X##gesvdjBatched(handle, CUSOLVER_EIG_MODE_VECTOR, 16, 16, a, 16, values, u, 16, v, 16, work, size, \
                                    info, jacobi, BATCH));                                                             \
    OK(cusolverDn##X##gesvdaStridedBatched_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, 16, 16, 16, a, 16, 256,        \
                                                      values, 16, u, 16, 256, v, 16, 256, &size, BATCH));              \
    OK(cusolverDn##X##gesvdaStridedBatched(handle, CUSOLVER_EIG_MODE_VECTOR, 16, 16, 16, a, 16, 256, values, 16, u,    \
                                           16, 256, v, 16, 256, work, size, info, norms, BATCH));                      \
    point_at((void**)matrices, a, 16 * 16 * sizeof(T));                                                                \
    OK(cusolverDn##X##potrfBatched(handle, CUBLAS_FILL_MODE_LOWER, 16, matrices, 16, info, BATCH));                    \
    OK(cusolverDn##X##potrsBatched(handle, CUBLAS_FILL_MODE_LOWER, 16, 1, matrices, 16, matrices, 16, info, BATCH));   \
    check_info();                                                                                                      \
  }                                                                                                                    \
  static void refuse_##X(void) {                                                                                       \
    EXPECT_OF_OURS(cusolverDn##X##getrf(NULL, N, N, a, N, work, pivots, info), CUSOLVER_STATUS_NOT_INITIALIZED);       \
    EXPECT_OF_OURS(cusolverDn##X##getrf(handle, -1, N, a, N, work, pivots, info), CUSOLVER_STATUS_SUCCESS);            \
    EXPECT_OF_OURS(read_info(), -1);                                                                                   \
  }

/* The same for symmetric, or Hermitian, matrices. */
#define SYMMETRIC(X, T, R, evj)                                                                                     \
  STATUS cusolverDn##X##sytrf_bufferSize(HANDLE, int, T*, int, int*);                                               \
  STATUS cusolverDn##X##sytrf(HANDLE, cublasFillMode_t, int, T*, int, int*, T*, int, int*);                         \
  STATUS cusolverDn##X##evj##_bufferSize(HANDLE, cusolverEigMode_t, cublasFillMode_t, int, const T*, int, const R*, \
                                         int*, syevjInfo_t);                                                        \
  STATUS cusolverDn##X##evj(HANDLE, cusolverEigMode_t, cublasFillMode_t, int, T*, int, R*, T*, int, int*,           \
                            syevjInfo_t);                                                                           \
  STATUS cusolverDn##X##evj##Batched_bufferSize(HANDLE, cusolverEigMode_t, cublasFillMode_t, int, const T*, int,    \
                                                const R*, int*, syevjInfo_t, int);                                  \
  STATUS cusolverDn##X##evj##Batched(HANDLE, cusolverEigMode_t, cublasFillMode_t, int, T*, int, R*, T*, int, int*,  \
                                     syevjInfo_t, int);                                                             \
  static void check_symmetric_##X(syevjInfo_t jacobi) {                                                             \
    const cublasFillMode_t lower = CUBLAS_FILL_MODE_LOWER;                                                          \
    const cusolverEigMode_t vectors = CUSOLVER_EIG_MODE_VECTOR;                                                     \
    int size = 0;                                                                                                   \
    clear_matrices();                                                                                               \
    OK(cusolverDn##X##evj##_bufferSize(handle, vectors, lower, N, a, N, b, &size, jacobi));                         \
    OK(cusolverDn##X##evj(handle, vectors, lower, N, a, N, b, work, size, info, jacobi));                           \
    OK(cusolverDn##X##evj##Batched_bufferSize(handle, vectors, lower, 16, a, 16, b, &size, jacobi, BATCH));         \
    OK(cusolverDn##X##evj##Batched(handle, vectors, lower, 16, a, 16, b, work, size, info, jacobi, BATCH));         \
    check_info();                                                                                                   \
    OK(cusolverDn##X##sytrf_bufferSize(handle, N, a, N, &size));                                                    \
    OK(cusolverDn##X##sytrf(handle, lower, N, a, N, pivots, work, size, info));                                     \
  }                                                                                                                 \
  static void refuse_symmetric_##X(void) {                                                                          \
    EXPECT_OF_OURS(cusolverDn##X##sytrf(NULL, CUBLAS_FILL_MODE_LOWER, N, a, N, pivots, work, 0, info),              \
                   CUSOLVER_STATUS_NOT_INITIALIZED);                                                                \
  }

static void point_at(void** matrices, char* first, size_t bytes) {
  void* pointers[BATCH];
  for (int i = 0; i < BATCH; ++i) pointers[i] = first + i * bytes;
  REQUIRE(cudaMemcpy(matrices, pointers, sizeof pointers, cudaMemcpyHostToDevice), cudaSuccess);
}

PRECISION(S, float, float, orgqr, ormqr)
PRECISION(D, double, double, orgqr, ormqr)
PRECISION(C, cuComplex, float, ungqr, unmqr)
PRECISION(Z, cuDoubleComplex, double, ungqr, unmqr)
SYMMETRIC(S, float, float, syevj)
SYMMETRIC(D, double, double, syevj)
SYMMETRIC(C, cuComplex, float, heevj)
SYMMETRIC(Z, cuDoubleComplex, double, heevj)

static void check_symmetric(void) {
  const cudaDataType type = CUDA_R_32F;
  syevjInfo_t jacobi;
  size_t bytes = 0, host_bytes = 1;
  OK(cusolverDnCreateSyevjInfo(&jacobi));
  check_symmetric_S(jacobi);
  check_symmetric_D(jacobi);
  check_symmetric_C(jacobi);
  check_symmetric_Z(jacobi);
  OK(cusolverDnDestroySyevjInfo(jacobi));
  OK(cusolverDnXsytrs_bufferSize(handle, CUBLAS_FILL_MODE_LOWER, N, 2, type, a, N, NULL, type, b, N, &bytes,
                                 &host_bytes));
  char* host = malloc(host_bytes + 1);
  OK(cusolverDnXsytrs(handle, CUBLAS_FILL_MODE_LOWER, N, 2, type, a, N, NULL, type, b, N, work, bytes, host, host_bytes,
                      info));
  free(host);
}

static void check_general(cusolverDnParams_t params) {
  const cudaDataType real = CUDA_R_32F, complex = CUDA_C_32F;
  const cusolverEigMode_t none = CUSOLVER_EIG_MODE_NOVECTOR, vectors = CUSOLVER_EIG_MODE_VECTOR;
  size_t bytes = 0, host_bytes = 1;
  char* vl = (char*)b + (256 << 10);
  clear_matrices();
  OK(cusolverDnXgeev_bufferSize(handle, params, none, vectors, N, real, a, N, complex, b, real, vl, N, real, vl, N,
                                real, &bytes, &host_bytes));
  char* host = malloc(host_bytes + 1);
  OK(cusolverDnXgeev(handle, params, none, vectors, N, real, a, N, complex, b, real, vl, N, real, vl, N, real, work,
                     bytes, host, host_bytes, info));
  check_info();
  free(host);
}

static void check_generic(void) {
  const cudaDataType type = CUDA_R_32F;
  const cublasFillMode_t lower = CUBLAS_FILL_MODE_LOWER;
  const cusolverEigMode_t vectors = CUSOLVER_EIG_MODE_VECTOR;
  cusolverDnParams_t params;
  size_t bytes = 0, host_bytes = 1;
  static char host[1 << 20];
  clear_matrices();
  OK(cusolverDnCreateParams(&params));
  OK(cusolverDnXpotrf_bufferSize(handle, params, lower, N, type, a, N, type, &bytes, &host_bytes));
  OK(cusolverDnXpotrf(handle, params, lower, N, type, a, N, type, work, bytes, host, host_bytes, info));
  OK(cusolverDnXpotrs(handle, params, lower, N, 2, type, a, N, type, b, N, info));
  OK(cusolverDnXgeqrf_bufferSize(handle, params, N, N, type, a, N, type, b, type, &bytes, &host_bytes));
  OK(cusolverDnXgeqrf(handle, params, N, N, type, a, N, type, b, type, work, bytes, host, host_bytes, info));
  OK(cusolverDnXsyevd_bufferSize(handle, params, vectors, lower, N, type, a, N, type, b, type, &bytes, &host_bytes));
  OK(cusolverDnXsyevd(handle, params, vectors, lower, N, type, a, N, type, b, type, work, bytes, host, host_bytes,
                      info));
  OK(cusolverDnXsyevBatched_bufferSize(handle, params, vectors, lower, 16, type, a, 16, type, b, type, &bytes,
                                       &host_bytes, BATCH));
  OK(cusolverDnXsyevBatched(handle, params, vectors, lower, 16, type, a, 16, type, b, type, work, bytes, host,
                            host_bytes, info, BATCH));
  check_info();
  check_general(params);
  OK(cusolverDnDestroyParams(params));
}

/* Calls without a handle, or with sizes that cannot be: on an H100 the vendor's answer as ours, on an H200 its kernels
   fault. */
static void check_misuse(void) {
  const cudaDataType type = CUDA_R_32F;
  refuse_S(), refuse_D(), refuse_C(), refuse_Z();
  refuse_symmetric_S(), refuse_symmetric_D(), refuse_symmetric_C(), refuse_symmetric_Z();
  EXPECT_OF_OURS(cusolverDnXpotrf(NULL, NULL, CUBLAS_FILL_MODE_LOWER, N, type, a, N, type, work, 0, NULL, 0, info),
                 CUSOLVER_STATUS_NOT_INITIALIZED);
}

int main(void) {
  gesvdjInfo_t jacobi;
  REQUIRE(cudaMalloc((void**)&info, 4096), cudaSuccess);
  REQUIRE(cudaMalloc((void**)&pivots, 4096), cudaSuccess);
  REQUIRE(cudaMalloc(&a, 1 << 20), cudaSuccess);
  REQUIRE(cudaMalloc(&b, 1 << 20), cudaSuccess);
  REQUIRE(cudaMalloc(&work, 16 << 20), cudaSuccess);
  OK(cusolverDnCreate(&handle));
  OK(cusolverDnCreateGesvdjInfo(&jacobi));
  OK(cusolverDnXgesvdjSetTolerance(jacobi, 1e-7));
  OK(cusolverDnXgesvdjSetMaxSweeps(jacobi, 20));
  OK(cusolverDnXgesvdjSetSortEig(jacobi, 1));
  check_S(jacobi);
  check_D(jacobi);
  check_C(jacobi);
  check_Z(jacobi);
  check_generic();
  check_symmetric();
  check_misuse();
  OK(cusolverDnDestroyGesvdjInfo(jacobi));
  OK(cusolverDnDestroy(handle));
#ifdef PHANTORA_MODEL
  EXPECT(cusolverDnDestroy(handle), CUSOLVER_STATUS_NOT_INITIALIZED);
#endif
  return differences;
}
