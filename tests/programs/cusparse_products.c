/* covers: cusparseCreateCsr cusparseCreateCoo cusparseDestroySpMat cusparseSpMatGetSize cusparseCsrSetPointers
   cusparseCsrSetStridedBatch cusparseCreateDnMat cusparseDestroyDnMat cusparseDnMatSetStridedBatch
   cusparseCreateDnVec cusparseDestroyDnVec cusparseSpMM_bufferSize cusparseSpMM cusparseSpMV_bufferSize cusparseSpMV
   cusparseSDDMM_bufferSize cusparseSDDMM_preprocess cusparseSDDMM cusparseXcoo2csr cusparseCreateIdentityPermutation
   cusparseXcoosort_bufferSizeExt cusparseXcoosortByRow */
#include "cusparse_calls.h"

STATUS cusparseCreateCoo(cusparseSpMatDescr_t*, int64_t, int64_t, int64_t, void*, void*, void*, cusparseIndexType_t,
                         cusparseIndexBase_t, cudaDataType);
STATUS cusparseCsrSetStridedBatch(cusparseSpMatDescr_t, int, int64_t, int64_t);
STATUS cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t, int, int64_t);
STATUS cusparseSpMM_bufferSize(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                               cusparseConstDnMatDescr_t, const void*, cusparseDnMatDescr_t, cudaDataType,
                               cusparseSpMMAlg_t, size_t*);
STATUS cusparseSpMM(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                    cusparseConstDnMatDescr_t, const void*, cusparseDnMatDescr_t, cudaDataType, cusparseSpMMAlg_t,
                    void*);
STATUS cusparseSpMV_bufferSize(HANDLE, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                               cusparseConstDnVecDescr_t, const void*, cusparseDnVecDescr_t, cudaDataType,
                               cusparseSpMVAlg_t, size_t*);
STATUS cusparseSpMV(HANDLE, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t, cusparseConstDnVecDescr_t,
                    const void*, cusparseDnVecDescr_t, cudaDataType, cusparseSpMVAlg_t, void*);
STATUS cusparseSDDMM_bufferSize(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*,
                                cusparseConstDnMatDescr_t, cusparseConstDnMatDescr_t, const void*, cusparseSpMatDescr_t,
                                cudaDataType, cusparseSDDMMAlg_t, size_t*);
STATUS cusparseSDDMM_preprocess(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*,
                                cusparseConstDnMatDescr_t, cusparseConstDnMatDescr_t, const void*, cusparseSpMatDescr_t,
                                cudaDataType, cusparseSDDMMAlg_t, void*);
STATUS cusparseSDDMM(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstDnMatDescr_t,
                     cusparseConstDnMatDescr_t, const void*, cusparseSpMatDescr_t, cudaDataType, cusparseSDDMMAlg_t,
                     void*);
STATUS cusparseXcoo2csr(HANDLE, const int*, int, int, int*, cusparseIndexBase_t);
STATUS cusparseCreateIdentityPermutation(HANDLE, int, int*);
STATUS cusparseXcoosort_bufferSizeExt(HANDLE, int, int, int, const int*, const int*, size_t*);
STATUS cusparseXcoosortByRow(HANDLE, int, int, int, int*, int*, int*, void*);

enum { ROWS = 4, COLUMNS = 3, NONZEROS = 5, WIDTH = 2 };

static const cusparseOperation_t turned = CUSPARSE_OPERATION_TRANSPOSE;
static int *coordinates, *columns, *offsets, *permutation;
static float *values, *dense, *result;
static void* work;

/* Of a matrix whose rows and columns are known. */
static void convert(void) {
  const int rows[NONZEROS] = {3, 0, 1, 0, 2}, places[NONZEROS] = {2, 1, 0, 0, 2};
  size_t bytes = 0;
  REQUIRE(cudaMemcpy(coordinates, rows, sizeof rows, cudaMemcpyHostToDevice), cudaSuccess);
  REQUIRE(cudaMemcpy(columns, places, sizeof places, cudaMemcpyHostToDevice), cudaSuccess);
  OK(cusparseCreateIdentityPermutation(handle, NONZEROS, permutation));
  OK(cusparseXcoosort_bufferSizeExt(handle, ROWS, COLUMNS, NONZEROS, coordinates, columns, &bytes));
  CHECK(bytes <= WORK_BYTES);
  OK(cusparseXcoosortByRow(handle, ROWS, COLUMNS, NONZEROS, coordinates, columns, permutation, work));
  OK(cusparseXcoo2csr(handle, coordinates, NONZEROS, ROWS, offsets, CUSPARSE_INDEX_BASE_ZERO));
  EXPECT(cusparseXcoo2csr(NULL, coordinates, NONZEROS, ROWS, offsets, CUSPARSE_INDEX_BASE_ZERO),
         CUSPARSE_STATUS_NOT_INITIALIZED);
}

static cusparseSpMatDescr_t make_sparse(void) {
  cusparseSpMatDescr_t matrix;
  int64_t sizes[3];
  OK(cusparseCreateCsr(&matrix, ROWS, COLUMNS, NONZEROS, offsets, columns, values, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  OK(cusparseCsrSetPointers(matrix, offsets, columns, values));
  OK(cusparseCsrSetStridedBatch(matrix, 1, 0, 0));
  OK(cusparseSpMatGetSize(matrix, &sizes[0], &sizes[1], &sizes[2]));
  CHECK(sizes[0] == ROWS && sizes[1] == COLUMNS && sizes[2] == NONZEROS);
  return matrix;
}

static void multiply(void) {
  cusparseSpMatDescr_t sparse = make_sparse();
  cusparseDnMatDescr_t in, out;
  size_t bytes = 0;
  OK(cusparseCreateDnMat(&in, COLUMNS, WIDTH, COLUMNS, dense, CUDA_R_32F, CUSPARSE_ORDER_COL));
  OK(cusparseCreateDnMat(&out, ROWS, WIDTH, ROWS, result, CUDA_R_32F, CUSPARSE_ORDER_COL));
  OK(cusparseDnMatSetStridedBatch(out, 1, 0));
  OK(cusparseSpMM_bufferSize(handle, plain, plain, &one, sparse, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2,
                             &bytes));
  OK(cusparseSpMM(handle, plain, plain, &one, sparse, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, work));
  OK(cusparseSpMM_bufferSize(handle, turned, plain, &one, sparse, out, &zero, in, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT,
                             &bytes));
  OK(cusparseSpMM(handle, turned, plain, &one, sparse, out, &zero, in, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, work));
  EXPECT(cusparseSpMM(NULL, plain, plain, &one, sparse, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, work),
         CUSPARSE_STATUS_INVALID_VALUE);
  EXPECT(cusparseSpMM(handle, plain, plain, &one, sparse, out, &zero, in, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, work),
         CUSPARSE_STATUS_INVALID_VALUE); /* sizes that do not fit */
  OK(cusparseSDDMM_bufferSize(handle, plain, turned, &one, out, in, &zero, sparse, CUDA_R_32F,
                              CUSPARSE_SDDMM_ALG_DEFAULT, &bytes));
  OK(cusparseSDDMM_preprocess(handle, plain, turned, &one, out, in, &zero, sparse, CUDA_R_32F,
                              CUSPARSE_SDDMM_ALG_DEFAULT, work));
  OK(cusparseSDDMM(handle, plain, turned, &one, out, in, &zero, sparse, CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT, work));
  OK(cusparseDestroyDnMat(in));
  OK(cusparseDestroyDnMat(out));
  OK(cusparseDestroySpMat(sparse));
}

static void multiply_vector(void) {
  cusparseSpMatDescr_t sparse;
  cusparseDnVecDescr_t in, out;
  size_t bytes = 0;
  OK(cusparseCreateCoo(&sparse, ROWS, COLUMNS, NONZEROS, coordinates, columns, values, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  OK(cusparseCreateDnVec(&in, COLUMNS, dense, CUDA_R_32F));
  OK(cusparseCreateDnVec(&out, ROWS, result, CUDA_R_32F));
  OK(cusparseSpMV_bufferSize(handle, plain, &one, sparse, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT,
                             &bytes));
  OK(cusparseSpMV(handle, plain, &one, sparse, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, work));
  OK(cusparseDestroyDnVec(in));
  OK(cusparseDestroyDnVec(out));
  OK(cusparseDestroySpMat(sparse));
#ifdef PHANTORA_MODEL
  EXPECT(cusparseSpMV(handle, plain, &one, sparse, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, work),
         CUSPARSE_STATUS_INVALID_VALUE);
  EXPECT(cusparseDestroySpMat(sparse), CUSPARSE_STATUS_INVALID_VALUE);
#endif
}

int main(void) {
  char* memory = make_memory();
  coordinates = (int*)memory;
  columns = coordinates + 256;
  offsets = coordinates + 512;
  permutation = coordinates + 768;
  values = (float*)memory + 1024;
  dense = values + 256;
  result = values + 512;
  work = memory + WORK_BYTES;
  OK(cusparseCreate(&handle));
  convert();
  multiply();
  multiply_vector();
  return finish(memory);
}
