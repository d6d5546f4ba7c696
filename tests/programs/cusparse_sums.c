/* covers: cusparseSpGEMM_createDescr cusparseSpGEMM_destroyDescr cusparseSpGEMM_workEstimation
   cusparseSpGEMM_compute cusparseSpGEMM_copy cusparseXcsrgeam2Nnz cusparseScsrgeam2_bufferSizeExt cusparseScsrgeam2
   cusparseDcsrgeam2_bufferSizeExt cusparseDcsrgeam2 cusparseCcsrgeam2_bufferSizeExt cusparseCcsrgeam2
   cusparseZcsrgeam2_bufferSizeExt cusparseZcsrgeam2 */
#include "cusparse_calls.h"

STATUS cusparseSpGEMM_createDescr(cusparseSpGEMMDescr_t*);
STATUS cusparseSpGEMM_destroyDescr(cusparseSpGEMMDescr_t);
STATUS cusparseSpGEMM_workEstimation(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*,
                                     cusparseConstSpMatDescr_t, cusparseConstSpMatDescr_t, const void*,
                                     cusparseSpMatDescr_t, cudaDataType, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t,
                                     size_t*, void*);
STATUS cusparseSpGEMM_compute(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                              cusparseConstSpMatDescr_t, const void*, cusparseSpMatDescr_t, cudaDataType,
                              cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t, size_t*, void*);
STATUS cusparseSpGEMM_copy(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                           cusparseConstSpMatDescr_t, const void*, cusparseSpMatDescr_t, cudaDataType,
                           cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t);
STATUS cusparseXcsrgeam2Nnz(HANDLE, int, int, const cusparseMatDescr_t, int, const int*, const int*,
                            const cusparseMatDescr_t, int, const int*, const int*, const cusparseMatDescr_t, int*, int*,
                            void*);

enum { N = 4 };

static const cusparseSpGEMMAlg_t usual = CUSPARSE_SPGEMM_DEFAULT;
static int *offsets, *columns, *result_offsets, *result_columns;
static float *values, *result_values;
static char* work;

static void multiply(void) {
  cusparseSpMatDescr_t a, c, wide;
  cusparseSpGEMMDescr_t state;
  int64_t rows, width, nonzeros;
  size_t bytes = 0, more = 0;
  OK(cusparseCreateCsr(&a, N, N, N, offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  OK(cusparseCreateCsr(&c, N, N, 0, result_offsets, NULL, NULL, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  OK(cusparseSpGEMM_createDescr(&state));
  OK(cusparseSpGEMM_workEstimation(handle, plain, plain, &one, a, a, &zero, c, CUDA_R_32F, usual, state, &bytes, NULL));
  OK(cusparseSpGEMM_workEstimation(handle, plain, plain, &one, a, a, &zero, c, CUDA_R_32F, usual, state, &bytes, work));
  OK(cusparseSpGEMM_compute(handle, plain, plain, &one, a, a, &zero, c, CUDA_R_32F, usual, state, &more, NULL));
  CHECK(bytes > 0 && more > 0 && bytes + more < WORK_BYTES);
  OK(cusparseSpGEMM_compute(handle, plain, plain, &one, a, a, &zero, c, CUDA_R_32F, usual, state, &more, work + bytes));
  OK(cusparseSpMatGetSize(c, &rows, &width, &nonzeros));
  CHECK(rows == N && width == N);
#ifdef PHANTORA_MODEL
  CHECK(nonzeros == 4); /* 16 (1 - exp(-4 / 16)) = 3.54 of 16 places are to be expected */
#else
  CHECK(nonzeros == N);
#endif
  OK(cusparseCsrSetPointers(c, result_offsets, result_columns, result_values));
  OK(cusparseSpGEMM_copy(handle, plain, plain, &one, a, a, &zero, c, CUDA_R_32F, usual, state));
  OK(cusparseCreateCsr(&wide, N, N + 1, N, offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  EXPECT(cusparseSpGEMM_workEstimation(handle, plain, plain, &one, wide, a, &zero, c, CUDA_R_32F, usual, state, &bytes,
                                       NULL),
         CUSPARSE_STATUS_INVALID_VALUE); /* sizes that do not fit */
  OK(cusparseSpGEMM_destroyDescr(state));
  OK(cusparseDestroySpMat(a));
  OK(cusparseDestroySpMat(c));
  OK(cusparseDestroySpMat(wide));
}

#define PRECISION(X, T)                                                                                                \
  STATUS cusparse##X##csrgeam2_bufferSizeExt(HANDLE, int, int, const T*, const cusparseMatDescr_t, int, const T*,      \
                                             const int*, const int*, const T*, const cusparseMatDescr_t, int,          \
                                             const T*, const int*, const int*, const cusparseMatDescr_t, const T*,     \
                                             const int*, const int*, size_t*);                                         \
  STATUS cusparse##X##csrgeam2(HANDLE, int, int, const T*, const cusparseMatDescr_t, int, const T*, const int*,        \
                               const int*, const T*, const cusparseMatDescr_t, int, const T*, const int*, const int*,  \
                               const cusparseMatDescr_t, T*, int*, int*, void*);                                       \
  static void add_##X(cusparseMatDescr_t of) {                                                                         \
    size_t bytes = 0;                                                                                                  \
    int nonzeros = -1;                                                                                                 \
    T factor[1] = {0};                                                                                                 \
    T *in = (T*)values, *out = (T*)result_values;                                                                      \
    OK(cusparse##X##csrgeam2_bufferSizeExt(handle, N, N, factor, of, N, in, offsets, columns, factor, of, N, in,       \
                                           offsets, columns, of, out, result_offsets, result_columns, &bytes));        \
    CHECK(bytes <= WORK_BYTES);                                                                                        \
    OK(cusparseXcsrgeam2Nnz(handle, N, N, of, N, offsets, columns, of, N, offsets, columns, of, result_offsets,        \
                            &nonzeros, work));                                                                         \
    CHECK(nonzeros >= N && nonzeros <= 2 * N);                                                                         \
    OK(cusparse##X##csrgeam2(handle, N, N, factor, of, N, in, offsets, columns, factor, of, N, in, offsets, columns,   \
                             of, out, result_offsets, result_columns, work));                                          \
    EXPECT(cusparse##X##csrgeam2(NULL, N, N, factor, of, N, in, offsets, columns, factor, of, N, in, offsets, columns, \
                                 of, out, result_offsets, result_columns, work),                                       \
           CUSPARSE_STATUS_NOT_INITIALIZED);                                                                           \
  }

PRECISION(S, float)
PRECISION(D, double)
PRECISION(C, cuComplex)
PRECISION(Z, cuDoubleComplex)

static void add(void) {
  cusparseMatDescr_t general;
  OK(cusparseCreateMatDescr(&general));
  add_S(general);
  add_D(general);
  add_C(general);
  add_Z(general);
  OK(cusparseDestroyMatDescr(general));
}

int main(void) {
  char* memory = make_memory();
  offsets = (int*)memory;
  columns = offsets + 256;
  result_offsets = offsets + 512;
  result_columns = offsets + 768;
  values = (float*)memory + 1024;
  result_values = values + 512;
  work = memory + WORK_BYTES;
  make_unit(N, offsets, columns, values);
  OK(cusparseCreate(&handle));
  multiply();
  add();
  return finish(memory);
}
