/* covers: cublasSgemm_v2 cublasSgemm_v2_64 cublasSgemmStridedBatched cublasSgemmStridedBatched_64 cublasSgemmBatched
   cublasSgemmBatched_64 cublasDgemm_v2 cublasDgemm_v2_64 cublasDgemmStridedBatched cublasDgemmStridedBatched_64
   cublasDgemmBatched cublasDgemmBatched_64 cublasCgemm_v2 cublasCgemm_v2_64 cublasCgemmStridedBatched
   cublasCgemmStridedBatched_64 cublasCgemmBatched cublasCgemmBatched_64 cublasZgemm_v2 cublasZgemm_v2_64
   cublasZgemmStridedBatched cublasZgemmStridedBatched_64 cublasZgemmBatched cublasZgemmBatched_64 cublasHgemm
   cublasHgemm_64 cublasHgemmStridedBatched cublasHgemmStridedBatched_64 cublasHgemmBatched cublasHgemmBatched_64
   cublasSgemv_v2 cublasSgemv_v2_64 cublasDgemv_v2 cublasDgemv_v2_64 cublasCgemv_v2 cublasCgemv_v2_64 cublasZgemv_v2
   cublasZgemv_v2_64 cublasSdot_v2 cublasSdot_v2_64 cublasDdot_v2 cublasDdot_v2_64 cublasCdotu_v2 cublasCdotu_v2_64
   cublasCdotc_v2 cublasCdotc_v2_64 cublasZdotu_v2 cublasZdotu_v2_64 cublasZdotc_v2 cublasZdotc_v2_64 cublasDotEx
   cublasGemmEx_64 cublasGemmStridedBatchedEx_64 cublasGemmBatchedEx_64 cublasSgemmEx_64 */
#include "cublas_calls.h"

typedef unsigned short Half;

/* One product in every form that a type has; matrices are 8 x 8. */
#define PRODUCTS(name, tail, T, one, zero)                                                                            \
  cublasStatus_t name##tail(SHAPE(int), const T*, const T*, int, const T*, int, const T*, T*, int);                   \
  cublasStatus_t name##tail##_64(SHAPE(int64_t), const T*, const T*, int64_t, const T*, int64_t, const T*, T*,        \
                                 int64_t);                                                                            \
  cublasStatus_t name##StridedBatched(SHAPE(int), const T*, const T*, int, long long, const T*, int, long long,       \
                                      const T*, T*, int, long long, int);                                             \
  cublasStatus_t name##StridedBatched_64(SHAPE(int64_t), const T*, const T*, int64_t, long long, const T*, int64_t,   \
                                         long long, const T*, T*, int64_t, long long, int64_t);                       \
  cublasStatus_t name##Batched(SHAPE(int), const T*, const T* const*, int, const T* const*, int, const T*, T* const*, \
                               int, int);                                                                             \
  cublasStatus_t name##Batched_64(SHAPE(int64_t), const T*, const T* const*, int64_t, const T* const*, int64_t,       \
                                  const T*, T* const*, int64_t, int64_t);                                             \
  static void check_##name(cublasHandle_t handle) {                                                                   \
    const T alpha = one, beta = zero;                                                                                 \
    T *a = make_array(), *b = make_array(), *c = make_array();                                                        \
    const T* const* from = (const T* const*)make_pointers(a);                                                         \
    T* const* to = (T* const*)make_pointers(c);                                                                       \
    OK(name##tail(handle, N, TR, 8, 8, 8, &alpha, a, 8, b, 8, &beta, c, 8));                                          \
    OK(name##tail##_64(handle, N, N, 8, 8, 8, &alpha, a, 8, b, 8, &beta, c, 8));                                      \
    OK(name##StridedBatched(handle, N, N, 8, 8, 8, &alpha, a, 8, 64, b, 8, 64, &beta, c, 8, 64, BATCH));              \
    OK(name##StridedBatched_64(handle, N, N, 8, 8, 8, &alpha, a, 8, 64, b, 8, 64, &beta, c, 8, 64, BATCH));           \
    OK(name##Batched(handle, N, N, 8, 8, 8, &alpha, from, 8, from, 8, &beta, to, 8, BATCH));                          \
    OK(name##Batched_64(handle, N, N, 8, 8, 8, &alpha, from, 8, from, 8, &beta, to, 8, BATCH));                       \
    EXPECT(name##tail(handle, N, N, 8, 8, 8, &alpha, a, 7, b, 8, &beta, c, 8), CUBLAS_STATUS_INVALID_VALUE);          \
    EXPECT(name##tail##_64(handle, N, N, 8, -8, 8, &alpha, a, 8, b, 8, &beta, c, 8), CUBLAS_STATUS_INVALID_VALUE);    \
    EXPECT(name##tail(NULL, N, N, 8, 8, 8, &alpha, a, 8, b, 8, &beta, c, 8), CUBLAS_STATUS_NOT_INITIALIZED);          \
  }

PRODUCTS(cublasSgemm, _v2, float, 1, 0)
PRODUCTS(cublasDgemm, _v2, double, 1, 0)
PRODUCTS(cublasCgemm, _v2, cuComplex, {1}, {0})
PRODUCTS(cublasZgemm, _v2, cuDoubleComplex, {1}, {0})
PRODUCTS(cublasHgemm, , Half, 0x3c00, 0)

#define VECTORS(name, T, one, zero)                                                                             \
  cublasStatus_t name##_v2(cublasHandle_t, cublasOperation_t, int, int, const T*, const T*, int, const T*, int, \
                           const T*, T*, int);                                                                  \
  cublasStatus_t name##_v2_64(cublasHandle_t, cublasOperation_t, int64_t, int64_t, const T*, const T*, int64_t, \
                              const T*, int64_t, const T*, T*, int64_t);                                        \
  static void check_##name(cublasHandle_t handle) {                                                             \
    const T alpha = one, beta = zero;                                                                           \
    T *a = make_array(), *x = make_array(), *y = make_array();                                                  \
    OK(name##_v2(handle, N, 8, 4, &alpha, a, 8, x, 1, &beta, y, 1));                                            \
    OK(name##_v2_64(handle, TR, 8, 4, &alpha, a, 8, x, 1, &beta, y, 1));                                        \
    EXPECT(name##_v2(handle, N, -8, 4, &alpha, a, 8, x, 1, &beta, y, 1), CUBLAS_STATUS_SUCCESS); /* nothing */  \
    EXPECT(name##_v2(NULL, N, 8, 4, &alpha, a, 8, x, 1, &beta, y, 1), CUBLAS_STATUS_NOT_INITIALIZED);           \
  }

VECTORS(cublasSgemv, float, 1, 0)
VECTORS(cublasDgemv, double, 1, 0)
VECTORS(cublasCgemv, cuComplex, {1}, {0})
VECTORS(cublasZgemv, cuDoubleComplex, {1}, {0})

#define DOTS(name, T)                                                                             \
  cublasStatus_t name##_v2(cublasHandle_t, int, const T*, int, const T*, int, T*);                \
  cublasStatus_t name##_v2_64(cublasHandle_t, int64_t, const T*, int64_t, const T*, int64_t, T*); \
  static void check_##name(cublasHandle_t handle) {                                               \
    T result, *x = make_array();                                                                  \
    OK(name##_v2(handle, 100, x, 1, x, 1, &result));                                              \
    OK(name##_v2_64(handle, 100, x, 1, x, 1, &result));                                           \
  }

DOTS(cublasSdot, float)
DOTS(cublasDdot, double)
DOTS(cublasCdotu, cuComplex)
DOTS(cublasCdotc, cuComplex)
DOTS(cublasZdotu, cuDoubleComplex)
DOTS(cublasZdotc, cuDoubleComplex)

#define ENDS cublasComputeType_t, cublasGemmAlgo_t
cublasStatus_t cublasGemmEx_64(SHAPE(int64_t), const void*, const void*, cudaDataType, int64_t, const void*,
                               cudaDataType, int64_t, const void*, void*, cudaDataType, int64_t, ENDS);
cublasStatus_t cublasGemmStridedBatchedEx_64(SHAPE(int64_t), const void*, const void*, cudaDataType, int64_t, long long,
                                             const void*, cudaDataType, int64_t, long long, const void*, void*,
                                             cudaDataType, int64_t, long long, int64_t, ENDS);
cublasStatus_t cublasGemmBatchedEx_64(SHAPE(int64_t), const void*, const void* const*, cudaDataType, int64_t,
                                      const void* const*, cudaDataType, int64_t, const void*, void* const*,
                                      cudaDataType, int64_t, int64_t, ENDS);
cublasStatus_t cublasSgemmEx_64(SHAPE(int64_t), const float*, const void*, cudaDataType, int64_t, const void*,
                                cudaDataType, int64_t, const float*, void*, cudaDataType, int64_t);
cublasStatus_t cublasDotEx(cublasHandle_t, int, const void*, cudaDataType, int, const void*, cudaDataType, int, void*,
                           cudaDataType, cudaDataType);

static void check_extended(cublasHandle_t handle) {
  const float one = 1, zero = 0;
  float result;
  void *a = make_array(), *c = make_array();
  const void* const* from = (const void* const*)make_pointers(a);
  void* const* to = make_pointers(c);
  const cudaDataType type = CUDA_R_16BF;
  const cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  const cublasGemmAlgo_t algorithm = CUBLAS_GEMM_DEFAULT;
  OK(cublasGemmEx_64(handle, N, N, 8, 8, 8, &one, a, type, 8, a, type, 8, &zero, c, type, 8, compute, algorithm));
  OK(cublasGemmStridedBatchedEx_64(handle, N, N, 8, 8, 8, &one, a, type, 8, 64, a, type, 8, 64, &zero, c, type, 8, 64,
                                   BATCH, compute, algorithm));
  OK(cublasGemmBatchedEx_64(handle, N, N, 8, 8, 8, &one, from, type, 8, from, type, 8, &zero, to, type, 8, BATCH,
                            compute, algorithm));
  OK(cublasSgemmEx_64(handle, N, N, 8, 8, 8, &one, a, type, 8, a, type, 8, &zero, c, type, 8));
  OK(cublasDotEx(handle, 100, a, CUDA_R_32F, 1, a, CUDA_R_32F, 1, &result, CUDA_R_32F, CUDA_R_32F));
}

int main(void) {
  cublasHandle_t handle;
  OK(cublasCreate_v2(&handle));
  check_cublasSgemm(handle), check_cublasDgemm(handle), check_cublasCgemm(handle), check_cublasZgemm(handle);
  check_cublasHgemm(handle);
  check_cublasSgemv(handle), check_cublasDgemv(handle), check_cublasCgemv(handle), check_cublasZgemv(handle);
  check_cublasSdot(handle), check_cublasDdot(handle), check_cublasCdotu(handle), check_cublasCdotc(handle);
  check_cublasZdotu(handle), check_cublasZdotc(handle);
  check_extended(handle);
  REQUIRE(cudaDeviceSynchronize(), cudaSuccess);
  OK(cublasDestroy_v2(handle));
  return differences;
}
