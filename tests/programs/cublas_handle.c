/* covers: cublasCreate_v2 cublasDestroy_v2 cublasGetVersion_v2 cublasGetProperty cublasGetCudartVersion
   cublasSetStream_v2 cublasGetStream_v2 cublasSetWorkspace_v2 cublasSetPointerMode_v2 cublasGetPointerMode_v2
   cublasSetAtomicsMode cublasGetAtomicsMode cublasSetMathMode cublasGetMathMode cublasSetSmCountTarget
   cublasGetSmCountTarget cublasGetStatusName cublasGetStatusString */
#include <string.h>

#include "program.h"
#include "shim/cublas/cublas_types.h"

cublasStatus_t cublasCreate_v2(cublasHandle_t*);
cublasStatus_t cublasDestroy_v2(cublasHandle_t);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int*);
cublasStatus_t cublasGetProperty(libraryPropertyType, int*);
size_t cublasGetCudartVersion(void);
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t);
cublasStatus_t cublasGetStream_v2(cublasHandle_t, cudaStream_t*);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t);
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t*);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t);
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t*);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);
cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t*);
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t, int);
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t, int*);
const char* cublasGetStatusName(cublasStatus_t);
const char* cublasGetStatusString(cublasStatus_t);

int main(void) {
  cublasHandle_t handle;
  REQUIRE(cublasCreate_v2(&handle), CUBLAS_STATUS_SUCCESS);
  int version = 0, major = 0;
  REQUIRE(cublasGetVersion_v2(handle, &version), CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasGetProperty(MAJOR_VERSION, &major), CUBLAS_STATUS_SUCCESS);
  CHECK(version / 10000 == major);
  CHECK(cublasGetCudartVersion() / 1000 == (size_t)major);

  cudaStream_t stream, seen;
  REQUIRE(cudaStreamCreate(&stream), cudaSuccess);
  REQUIRE(cublasSetStream_v2(handle, stream), CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetStream_v2(handle, &seen) == CUBLAS_STATUS_SUCCESS && seen == stream);
  void* workspace;
  REQUIRE(cudaMalloc(&workspace, 1 << 20), cudaSuccess);
  REQUIRE(cublasSetWorkspace_v2(handle, workspace, 1 << 20), CUBLAS_STATUS_SUCCESS);

  cublasPointerMode_t pointer_mode;
  REQUIRE(cublasGetPointerMode_v2(handle, &pointer_mode), CUBLAS_STATUS_SUCCESS);
  CHECK(pointer_mode == CUBLAS_POINTER_MODE_HOST);
  REQUIRE(cublasSetPointerMode_v2(handle, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasGetPointerMode_v2(handle, &pointer_mode), CUBLAS_STATUS_SUCCESS);
  CHECK(pointer_mode == CUBLAS_POINTER_MODE_DEVICE);
  cublasAtomicsMode_t atomics;
  REQUIRE(cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_ALLOWED), CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetAtomicsMode(handle, &atomics) == CUBLAS_STATUS_SUCCESS && atomics == CUBLAS_ATOMICS_ALLOWED);
  cublasMath_t math;
  REQUIRE(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetMathMode(handle, &math) == CUBLAS_STATUS_SUCCESS && math == CUBLAS_TF32_TENSOR_OP_MATH);
  int target;
  REQUIRE(cublasSetSmCountTarget(handle, 16), CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetSmCountTarget(handle, &target) == CUBLAS_STATUS_SUCCESS && target == 16);

  REQUIRE(cublasDestroy_v2(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT(cublasDestroy_v2(NULL), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT(cublasSetStream_v2(NULL, stream), CUBLAS_STATUS_NOT_INITIALIZED);
#ifdef PHANTORA_MODEL
  EXPECT(cublasDestroy_v2(handle), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT(cublasSetStream_v2(handle, stream), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT(cublasGetMathMode(handle, &math), CUBLAS_STATUS_NOT_INITIALIZED);
#endif
  CHECK(strcmp(cublasGetStatusName(CUBLAS_STATUS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE") == 0);
  CHECK(strlen(cublasGetStatusString(CUBLAS_STATUS_INVALID_VALUE)) > 0);
  return differences;
}
