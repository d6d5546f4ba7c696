/* covers: cufftCreate cufftDestroy cufftSetAutoAllocation cufftSetStream cufftSetWorkArea cufftXtExec
   cufftXtMakePlanMany */
#include <cuda_runtime_api.h>
#include <library_types.h>

#include "program.h"
#include "shim/cufft/cufft_types.h"

cufftResult cufftCreate(cufftHandle*);
cufftResult cufftDestroy(cufftHandle);
cufftResult cufftSetStream(cufftHandle, cudaStream_t);
cufftResult cufftSetAutoAllocation(cufftHandle, int);
cufftResult cufftSetWorkArea(cufftHandle, void*);
cufftResult cufftXtMakePlanMany(cufftHandle, int, long long*, long long*, long long, long long, cudaDataType,
                                long long*, long long, long long, cudaDataType, long long, size_t*, cudaDataType);
cufftResult cufftXtExec(cufftHandle, void*, void*, int);

#define OK(call) REQUIRE(call, CUFFT_SUCCESS)

static cufftResult make(cufftHandle plan, int rank, long long size, cudaDataType input, cudaDataType output,
                        long long batch) {
  long long sizes[4] = {size, size, size, size};
  size_t workspace = 1;
  return cufftXtMakePlanMany(plan, rank, sizes, NULL, 1, size, input, NULL, 1, size, output, batch, &workspace,
                             CUDA_C_32F);
}

static void check_execution(float* data) {
  cufftHandle plan;
  cudaStream_t stream;
  REQUIRE(cudaStreamCreate(&stream), cudaSuccess);
  OK(cufftCreate(&plan));
  EXPECT(cufftXtExec(plan, data, data, -1), CUFFT_INVALID_PLAN); /* not made yet */
  OK(cufftSetAutoAllocation(plan, 0));
  OK(make(plan, 1, 1024, CUDA_R_32F, CUDA_C_32F, 4));
  OK(cufftSetStream(plan, stream));
  OK(cufftSetWorkArea(plan, data));
  OK(cufftXtExec(plan, data, data, -1));
  REQUIRE(cudaStreamSynchronize(stream), cudaSuccess);
  OK(cufftDestroy(plan));
  EXPECT(cufftDestroy(plan), CUFFT_INVALID_PLAN);
  EXPECT(cufftXtExec(plan, data, data, -1), CUFFT_INVALID_PLAN);
  EXPECT(cufftSetStream(plan, stream), CUFFT_INVALID_PLAN);
  REQUIRE(cudaStreamDestroy(stream), cudaSuccess);
}

static void check_misuse(void) {
  cufftHandle plan;
  OK(cufftCreate(&plan));
  EXPECT(make(plan + 1000, 1, 64, CUDA_C_32F, CUDA_C_32F, 1), CUFFT_INVALID_PLAN);
  EXPECT(make(plan, 1, 0, CUDA_C_32F, CUDA_C_32F, 1), CUFFT_INVALID_SIZE);
  OK(make(plan, 2, 64, CUDA_C_32F, CUDA_C_32F, 1));
  OK(cufftDestroy(plan));
}

int main(void) {
  float* data;
  REQUIRE(cudaMalloc((void**)&data, 1 << 20), cudaSuccess);
  check_execution(data);
  check_misuse();
  REQUIRE(cudaFree(data), cudaSuccess);
  return differences;
}
