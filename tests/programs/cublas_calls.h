/* What the programs of cuBLAS's families share. */
#pragma once

#include <stdint.h>

#include "program.h"
#include "shim/cublas/cublas_types.h"

#define OK(call) REQUIRE(call, CUBLAS_STATUS_SUCCESS)
#define SHAPE(Index) cublasHandle_t, cublasOperation_t, cublasOperation_t, Index, Index, Index

cublasStatus_t cublasCreate_v2(cublasHandle_t*);
cublasStatus_t cublasDestroy_v2(cublasHandle_t);

enum { BATCH = 2, ARRAY_BYTES = 1 << 16, MATRIX_BYTES = 64 * sizeof(cuDoubleComplex) };

__attribute__((unused)) static const cublasOperation_t N = CUBLAS_OP_N, TR = CUBLAS_OP_T;

/* Zeros on the device, enough for every matrix of the programs; given back at the end of the process. */
static void* make_array(void) {
  void* array;
  REQUIRE(cudaMalloc(&array, ARRAY_BYTES), cudaSuccess);
  REQUIRE(cudaMemset(array, 0, ARRAY_BYTES), cudaSuccess);
  return array;
}

/* An array of pointers on the device, to a batch of 8 x 8 matrices. */
static void** make_pointers(void* matrices) {
  void **pointers = make_array(), *sent[BATCH];
  for (int i = 0; i < BATCH; ++i) sent[i] = (char*)matrices + i * MATRIX_BYTES;
  REQUIRE(cudaMemcpy(pointers, sent, sizeof sent, cudaMemcpyHostToDevice), cudaSuccess);
  return pointers;
}
