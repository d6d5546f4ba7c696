/* covers: cusparseSpMatSetAttribute cusparseSpSV_createDescr cusparseSpSV_destroyDescr cusparseSpSV_bufferSize
   cusparseSpSV_analysis cusparseSpSV_solve cusparseSpSM_createDescr cusparseSpSM_destroyDescr
   cusparseSpSM_bufferSize cusparseSpSM_analysis cusparseSpSM_solve */
#include "cusparse_calls.h"

STATUS cusparseSpMatSetAttribute(cusparseSpMatDescr_t, cusparseSpMatAttribute_t, void*, size_t);
STATUS cusparseSpSV_createDescr(cusparseSpSVDescr_t*);
STATUS cusparseSpSV_destroyDescr(cusparseSpSVDescr_t);
STATUS cusparseSpSV_bufferSize(HANDLE, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                               cusparseConstDnVecDescr_t, cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                               cusparseSpSVDescr_t, size_t*);
STATUS cusparseSpSV_analysis(HANDLE, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                             cusparseConstDnVecDescr_t, cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                             cusparseSpSVDescr_t, void*);
STATUS cusparseSpSV_solve(HANDLE, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                          cusparseConstDnVecDescr_t, cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                          cusparseSpSVDescr_t);
STATUS cusparseSpSM_createDescr(cusparseSpSMDescr_t*);
STATUS cusparseSpSM_destroyDescr(cusparseSpSMDescr_t);
STATUS cusparseSpSM_bufferSize(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                               cusparseConstDnMatDescr_t, cusparseDnMatDescr_t, cudaDataType, cusparseSpSMAlg_t,
                               cusparseSpSMDescr_t, size_t*);
STATUS cusparseSpSM_analysis(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                             cusparseConstDnMatDescr_t, cusparseDnMatDescr_t, cudaDataType, cusparseSpSMAlg_t,
                             cusparseSpSMDescr_t, void*);
STATUS cusparseSpSM_solve(HANDLE, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t,
                          cusparseConstDnMatDescr_t, cusparseDnMatDescr_t, cudaDataType, cusparseSpSMAlg_t,
                          cusparseSpSMDescr_t);

enum { N = 4, WIDTH = 2 };

static int *offsets, *columns;
static float *values, *right, *left;
static char* work;

static cusparseSpMatDescr_t make_lower(int64_t width) {
  cusparseSpMatDescr_t matrix;
  cusparseFillMode_t fill_mode = CUSPARSE_FILL_MODE_LOWER;
  cusparseDiagType_t diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
  OK(cusparseCreateCsr(&matrix, N, width, N, offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  OK(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_FILL_MODE, &fill_mode, sizeof fill_mode));
  OK(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal));
  EXPECT(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_DIAG_TYPE, NULL, sizeof diagonal),
         CUSPARSE_STATUS_INVALID_VALUE);
  return matrix;
}

static void solve_vector(cusparseSpMatDescr_t a) {
  cusparseDnVecDescr_t b, x;
  cusparseSpSVDescr_t state;
  size_t bytes = 0;
  OK(cusparseCreateDnVec(&b, N, right, CUDA_R_32F));
  OK(cusparseCreateDnVec(&x, N, left, CUDA_R_32F));
  OK(cusparseSpSV_createDescr(&state));
  OK(cusparseSpSV_bufferSize(handle, plain, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, state, &bytes));
  CHECK(bytes > 0 && bytes < WORK_BYTES);
  OK(cusparseSpSV_analysis(handle, plain, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, state, work));
  OK(cusparseSpSV_solve(handle, plain, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, state));
  EXPECT(cusparseSpSV_solve(NULL, plain, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, state),
         CUSPARSE_STATUS_INVALID_VALUE);
  OK(cusparseSpSV_destroyDescr(state));
  OK(cusparseDestroyDnVec(b));
  OK(cusparseDestroyDnVec(x));
}

static void solve_matrix(cusparseSpMatDescr_t a) {
  cusparseDnMatDescr_t b, x;
  cusparseSpSMDescr_t state;
  size_t bytes = 0;
  OK(cusparseCreateDnMat(&b, N, WIDTH, N, right, CUDA_R_32F, CUSPARSE_ORDER_COL));
  OK(cusparseCreateDnMat(&x, N, WIDTH, N, left, CUDA_R_32F, CUSPARSE_ORDER_COL));
  OK(cusparseSpSM_createDescr(&state));
  OK(cusparseSpSM_bufferSize(handle, plain, plain, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, state,
                             &bytes));
  CHECK(bytes < WORK_BYTES);
  OK(cusparseSpSM_analysis(handle, plain, plain, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, state, work));
  OK(cusparseSpSM_solve(handle, plain, plain, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, state));
#ifdef PHANTORA_MODEL
  cusparseSpMatDescr_t wide = make_lower(N + 1);
  EXPECT(cusparseSpSM_solve(handle, plain, plain, &one, wide, b, x, CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, state),
         CUSPARSE_STATUS_INVALID_VALUE); /* not square */
  OK(cusparseDestroySpMat(wide));
#endif
  OK(cusparseSpSM_destroyDescr(state));
  OK(cusparseDestroyDnMat(b));
  OK(cusparseDestroyDnMat(x));
}

int main(void) {
  char* memory = make_memory();
  offsets = (int*)memory;
  columns = offsets + 256;
  values = (float*)memory + 1024;
  right = values + 256;
  left = values + 512;
  work = memory + WORK_BYTES;
  make_unit(N, offsets, columns, values);
  OK(cusparseCreate(&handle));
  cusparseSpMatDescr_t lower = make_lower(N);
  solve_vector(lower);
  solve_matrix(lower);
  OK(cusparseDestroySpMat(lower));
  return finish(memory);
}
