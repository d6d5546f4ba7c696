/* covers: cusparseCreate cusparseDestroy cusparseGetVersion cusparseSetStream cusparseSetPointerMode
   cusparseGetErrorString cusolverDnCreate cusolverDnDestroy cusolverDnSetStream */
#include <string.h>

#include "program.h"
#include "shim/cusolver/cusolver_types.h"
#include "shim/cusparse/cusparse_types.h"

cusparseStatus_t cusparseCreate(cusparseHandle_t*);
cusparseStatus_t cusparseDestroy(cusparseHandle_t);
cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int*);
cusparseStatus_t cusparseSetStream(cusparseHandle_t, cudaStream_t);
cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t, cusparsePointerMode_t);
const char* cusparseGetErrorString(cusparseStatus_t);
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t*);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t, cudaStream_t);

int main(void) {
  cusparseHandle_t sparse;
  cusolverDnHandle_t solver;
  int version = 0;
  REQUIRE(cusparseCreate(&sparse), CUSPARSE_STATUS_SUCCESS);
  CHECK(cusparseGetVersion(sparse, &version) == CUSPARSE_STATUS_SUCCESS && version / 1000 == 12);
  REQUIRE(cusparseSetStream(sparse, NULL), CUSPARSE_STATUS_SUCCESS);
  REQUIRE(cusparseSetPointerMode(sparse, CUSPARSE_POINTER_MODE_DEVICE), CUSPARSE_STATUS_SUCCESS);
  REQUIRE(cusparseDestroy(sparse), CUSPARSE_STATUS_SUCCESS);
  CHECK(strlen(cusparseGetErrorString(CUSPARSE_STATUS_INVALID_VALUE)) > 0);
  REQUIRE(cusolverDnCreate(&solver), CUSOLVER_STATUS_SUCCESS);
  REQUIRE(cusolverDnSetStream(solver, NULL), CUSOLVER_STATUS_SUCCESS);
  REQUIRE(cusolverDnDestroy(solver), CUSOLVER_STATUS_SUCCESS);
  return differences;
}
