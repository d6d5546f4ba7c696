/* What the programs of cuSPARSE share. */
#pragma once

#include <cuComplex.h>
#include <cuda_runtime_api.h>

#include "program.h"
#include "shim/cusparse/cusparse_types.h"

#define OK(call) REQUIRE(call, CUSPARSE_STATUS_SUCCESS)
#define STATUS cusparseStatus_t
#define HANDLE cusparseHandle_t

STATUS cusparseCreate(HANDLE*);
STATUS cusparseDestroy(HANDLE);
STATUS cusparseCreateMatDescr(cusparseMatDescr_t*);
STATUS cusparseDestroyMatDescr(cusparseMatDescr_t);
STATUS cusparseCreateCsr(cusparseSpMatDescr_t*, int64_t, int64_t, int64_t, void*, void*, void*, cusparseIndexType_t,
                         cusparseIndexType_t, cusparseIndexBase_t, cudaDataType);
STATUS cusparseDestroySpMat(cusparseConstSpMatDescr_t);
STATUS cusparseSpMatGetSize(cusparseConstSpMatDescr_t, int64_t*, int64_t*, int64_t*);
STATUS cusparseCsrSetPointers(cusparseSpMatDescr_t, void*, void*, void*);
STATUS cusparseCreateDnMat(cusparseDnMatDescr_t*, int64_t, int64_t, int64_t, void*, cudaDataType, cusparseOrder_t);
STATUS cusparseDestroyDnMat(cusparseConstDnMatDescr_t);
STATUS cusparseCreateDnVec(cusparseDnVecDescr_t*, int64_t, void*, cudaDataType);
STATUS cusparseDestroyDnVec(cusparseConstDnVecDescr_t);

__attribute__((unused)) static const cusparseOperation_t plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
__attribute__((unused)) static const float one = 1, zero = 0;
static HANDLE handle;

enum { WORK_BYTES = 1 << 20 };

/* Zeros on the device: a megabyte for matrices, and one to work in. */
static char* make_memory(void) {
  char* memory;
  REQUIRE(cudaMalloc((void**)&memory, 2 * WORK_BYTES), cudaSuccess);
  REQUIRE(cudaMemset(memory, 0, 2 * WORK_BYTES), cudaSuccess);
  return memory;
}

/* A unit matrix of at most 8 rows, by rows, and as many ones again. */
__attribute__((unused)) static void make_unit(int rows, int* offsets, int* columns, float* values) {
  int places[9];
  float ones[16];
  CHECK(rows <= 8);
  for (int i = 0; i <= rows; ++i) places[i] = i;
  for (int i = 0; i < 2 * rows; ++i) ones[i] = 1;
  REQUIRE(cudaMemcpy(offsets, places, (rows + 1) * sizeof *places, cudaMemcpyHostToDevice), cudaSuccess);
  REQUIRE(cudaMemcpy(columns, places, rows * sizeof *places, cudaMemcpyHostToDevice), cudaSuccess);
  REQUIRE(cudaMemcpy(values, ones, 2 * rows * sizeof *ones, cudaMemcpyHostToDevice), cudaSuccess);
}

/* At the end of `main`. */
static int finish(void* memory) {
  REQUIRE(cudaDeviceSynchronize(), cudaSuccess);
  OK(cusparseDestroy(handle));
  REQUIRE(cudaFree(memory), cudaSuccess);
  return differences;
}
