/* covers: cublasSgemm_v2 cublasDgemm_v2 cublasGemmEx cublasGemmStridedBatchedEx cublasGemmBatchedEx cublasSgemmEx
   cublasSgemmStridedBatched cublasSgemmBatched cublasSgemv_v2 cublasSdot_v2 cublasStrsm_v2 cublasSgetrfBatched */
#include "cublas_calls.h"

#define SIZES SHAPE(int)
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);
cublasStatus_t cublasSgemm_v2(SIZES, const float*, const float*, int, const float*, int, const float*, float*, int);
cublasStatus_t cublasDgemm_v2(SIZES, const double*, const double*, int, const double*, int, const double*, double*,
                              int);
cublasStatus_t cublasGemmEx(SIZES, const void*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                            const void*, void*, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
cublasStatus_t cublasGemmStridedBatchedEx(SIZES, const void*, const void*, cudaDataType, int, long long int,
                                          const void*, cudaDataType, int, long long int, const void*, void*,
                                          cudaDataType, int, long long int, int, cublasComputeType_t, cublasGemmAlgo_t);
cublasStatus_t cublasGemmBatchedEx(SIZES, const void*, const void* const[], cudaDataType, int, const void* const[],
                                   cudaDataType, int, const void*, void* const[], cudaDataType, int, int,
                                   cublasComputeType_t, cublasGemmAlgo_t);
cublasStatus_t cublasSgemmEx(SIZES, const float*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                             const float*, void*, cudaDataType, int);
cublasStatus_t cublasSgemmStridedBatched(SIZES, const float*, const float*, int, long long int, const float*, int,
                                         long long int, const float*, float*, int, long long int, int);
cublasStatus_t cublasSgemmBatched(SIZES, const float*, const float* const[], int, const float* const[], int,
                                  const float*, float* const[], int, int);
cublasStatus_t cublasSgemv_v2(cublasHandle_t, cublasOperation_t, int, int, const float*, const float*, int,
                              const float*, int, const float*, float*, int);
cublasStatus_t cublasSdot_v2(cublasHandle_t, int, const float*, int, const float*, int, float*);
cublasStatus_t cublasStrsm_v2(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t,
                              int, int, const float*, const float*, int, float*, int);
cublasStatus_t cublasSgetrfBatched(cublasHandle_t, int, float* const[], int, int*, int*, int);

static const float one = 1, zero = 0;
static const double one_d = 1, zero_d = 0;

static void multiply(cublasHandle_t handle, float* a, float* b, float* c) {
  OK(cublasSgemm_v2(handle, TR, N, 32, 16, 64, &one, a, 64, b, 64, &one, c, 32));
  OK(cublasDgemm_v2(handle, N, N, 8, 8, 8, &one_d, (double*)a, 8, (double*)b, 8, &zero_d, (double*)c, 8));
  OK(cublasSgemmEx(handle, N, N, 8, 8, 8, &one, a, CUDA_R_16F, 8, b, CUDA_R_16F, 8, &zero, c, CUDA_R_16F, 8));
  OK(cublasGemmEx(handle, N, N, 128, 64, 32, &one, a, CUDA_R_16BF, 128, b, CUDA_R_16BF, 32, &zero, c, CUDA_R_16BF, 128,
                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP));
  OK(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH));
  OK(cublasSgemm_v2(handle, N, N, 8, 8, 8, &one, a, 8, b, 8, &zero, c, 8));
  OK(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
}

static void multiply_batches(cublasHandle_t handle, float* a, float* b, float* c) {
  const void* const* inputs = (const void* const*)make_pointers(a);
  void* const* outputs = make_pointers(c);
  OK(cublasGemmStridedBatchedEx(handle, N, N, 8, 8, 8, &one, a, CUDA_R_16F, 8, 64, b, CUDA_R_16F, 8, 0, &zero, c,
                                CUDA_R_16F, 8, 64, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  OK(cublasGemmBatchedEx(handle, N, N, 8, 8, 8, &one, inputs, CUDA_R_16F, 8, inputs, CUDA_R_16F, 8, &zero, outputs,
                         CUDA_R_16F, 8, BATCH, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  OK(cublasSgemmStridedBatched(handle, N, N, 8, 8, 8, &one, a, 8, 64, b, 8, 64, &zero, c, 8, 64, 2));
  OK(cublasSgemmBatched(handle, N, N, 8, 8, 8, &one, (const float* const*)inputs, 8, (const float* const*)inputs, 8,
                        &zero, (float* const*)outputs, 8, BATCH));
}

int main(void) {
  cublasHandle_t handle;
  OK(cublasCreate_v2(&handle));
  float *a = make_array(), *b = make_array(), *c = make_array();
  multiply(handle, a, b, c);
  multiply_batches(handle, a, b, c);
  OK(cublasSgemv_v2(handle, CUBLAS_OP_T, 16, 8, &one, a, 16, b, 1, &zero, c, 1));
  OK(cublasSetPointerMode_v2(handle, CUBLAS_POINTER_MODE_DEVICE));
  OK(cublasSdot_v2(handle, 100, a, 1, b, 1, c));
  OK(cublasSetPointerMode_v2(handle, CUBLAS_POINTER_MODE_HOST));
  OK(cublasStrsm_v2(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, 8, 4, &one, a,
                    8, b, 8));
  OK(cublasSgetrfBatched(handle, 8, (float* const*)make_pointers(a), 8, (int*)b, (int*)c, BATCH));

  EXPECT(cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, a, 4, b, 8, &zero, c, 8),
         CUBLAS_STATUS_INVALID_VALUE); /* leading dimension below the rows */
  EXPECT(cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, -1, 8, 8, &one, a, 8, b, 8, &zero, c, 8),
         CUBLAS_STATUS_INVALID_VALUE);
  OK(cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, 0, 8, 8, &one, a, 8, b, 8, &zero, c, 8));
  REQUIRE(cudaDeviceSynchronize(), cudaSuccess);
  return differences;
}
