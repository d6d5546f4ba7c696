/* covers: cusparseCreateMatDescr cusparseDestroyMatDescr cusparseSetMatType cusparseSetMatFillMode
   cusparseSetMatDiagType cusparseSetMatIndexBase cusparseCreateBsrsv2Info cusparseDestroyBsrsv2Info
   cusparseCreateBsrsm2Info cusparseDestroyBsrsm2Info cusparseXbsrsv2_zeroPivot cusparseXbsrsm2_zeroPivot
   cusparseSbsrmv cusparseSbsrmm cusparseSbsrsv2_bufferSize cusparseSbsrsv2_analysis cusparseSbsrsv2_solve
   cusparseSbsrsm2_bufferSize cusparseSbsrsm2_analysis cusparseSbsrsm2_solve cusparseDbsrmv cusparseDbsrmm
   cusparseDbsrsv2_bufferSize cusparseDbsrsv2_analysis cusparseDbsrsv2_solve cusparseDbsrsm2_bufferSize
   cusparseDbsrsm2_analysis cusparseDbsrsm2_solve cusparseCbsrmv cusparseCbsrmm cusparseCbsrsv2_bufferSize
   cusparseCbsrsv2_analysis cusparseCbsrsv2_solve cusparseCbsrsm2_bufferSize cusparseCbsrsm2_analysis
   cusparseCbsrsm2_solve cusparseZbsrmv cusparseZbsrmm cusparseZbsrsv2_bufferSize cusparseZbsrsv2_analysis
   cusparseZbsrsv2_solve cusparseZbsrsm2_bufferSize cusparseZbsrsm2_analysis cusparseZbsrsm2_solve */
#include "cusparse_calls.h"

STATUS cusparseSetMatType(cusparseMatDescr_t, cusparseMatrixType_t);
STATUS cusparseSetMatFillMode(cusparseMatDescr_t, cusparseFillMode_t);
STATUS cusparseSetMatDiagType(cusparseMatDescr_t, cusparseDiagType_t);
STATUS cusparseSetMatIndexBase(cusparseMatDescr_t, cusparseIndexBase_t);
STATUS cusparseCreateBsrsv2Info(bsrsv2Info_t*);
STATUS cusparseDestroyBsrsv2Info(bsrsv2Info_t);
STATUS cusparseCreateBsrsm2Info(bsrsm2Info_t*);
STATUS cusparseDestroyBsrsm2Info(bsrsm2Info_t);
STATUS cusparseXbsrsv2_zeroPivot(HANDLE, bsrsv2Info_t, int*);
STATUS cusparseXbsrsm2_zeroPivot(HANDLE, bsrsm2Info_t, int*);

/* Two blocks of ones on the diagonal, each 2 x 2, of which the lower half is solved for. */
enum { N = 2, SIZE = 2, WIDTH = 2 };

static const cusparseDirection_t by_row = CUSPARSE_DIRECTION_ROW;
static const cusparseSolvePolicy_t policy = CUSPARSE_SOLVE_POLICY_NO_LEVEL;
static int *offsets, *columns;
static void *values, *in, *out;
static char* work;

#define PRECISION(X, T)                                                                                                \
  STATUS cusparse##X##bsrmv(HANDLE, cusparseDirection_t, cusparseOperation_t, int, int, int, const T*,                 \
                            const cusparseMatDescr_t, const T*, const int*, const int*, int, const T*, const T*, T*);  \
  STATUS cusparse##X##bsrmm(HANDLE, cusparseDirection_t, cusparseOperation_t, cusparseOperation_t, int, int, int, int, \
                            const T*, const cusparseMatDescr_t, const T*, const int*, const int*, int, const T*, int,  \
                            const T*, T*, int);                                                                        \
  STATUS cusparse##X##bsrsv2_bufferSize(HANDLE, cusparseDirection_t, cusparseOperation_t, int, int,                    \
                                        const cusparseMatDescr_t, T*, const int*, const int*, int, bsrsv2Info_t,       \
                                        int*);                                                                         \
  STATUS cusparse##X##bsrsv2_analysis(HANDLE, cusparseDirection_t, cusparseOperation_t, int, int,                      \
                                      const cusparseMatDescr_t, const T*, const int*, const int*, int, bsrsv2Info_t,   \
                                      cusparseSolvePolicy_t, void*);                                                   \
  STATUS cusparse##X##bsrsv2_solve(HANDLE, cusparseDirection_t, cusparseOperation_t, int, int, const T*,               \
                                   const cusparseMatDescr_t, const T*, const int*, const int*, int, bsrsv2Info_t,      \
                                   const T*, T*, cusparseSolvePolicy_t, void*);                                        \
  STATUS cusparse##X##bsrsm2_bufferSize(HANDLE, cusparseDirection_t, cusparseOperation_t, cusparseOperation_t, int,    \
                                        int, int, const cusparseMatDescr_t, T*, const int*, const int*, int,           \
                                        bsrsm2Info_t, int*);                                                           \
  STATUS cusparse##X##bsrsm2_analysis(HANDLE, cusparseDirection_t, cusparseOperation_t, cusparseOperation_t, int, int, \
                                      int, const cusparseMatDescr_t, const T*, const int*, const int*, int,            \
                                      bsrsm2Info_t, cusparseSolvePolicy_t, void*);                                     \
  STATUS cusparse##X##bsrsm2_solve(HANDLE, cusparseDirection_t, cusparseOperation_t, cusparseOperation_t, int, int,    \
                                   int, const T*, const cusparseMatDescr_t, const T*, const int*, const int*, int,     \
                                   bsrsm2Info_t, const T*, int, T*, int, cusparseSolvePolicy_t, void*);                \
  static void check_##X(cusparseMatDescr_t of, bsrsv2Info_t vector, bsrsm2Info_t matrix, const T* one) {               \
    int bytes = 0;                                                                                                     \
    OK(cusparse##X##bsrmv(handle, by_row, plain, N, N, N, one, of, values, offsets, columns, SIZE, in, one, out));     \
    EXPECT(cusparse##X##bsrmv(NULL, by_row, plain, N, N, N, one, of, values, offsets, columns, SIZE, in, one, out),    \
           CUSPARSE_STATUS_NOT_INITIALIZED);                                                                           \
    OK(cusparse##X##bsrmm(handle, by_row, plain, plain, N, WIDTH, N, N, one, of, values, offsets, columns, SIZE, in,   \
                          N * SIZE, one, out, N * SIZE));                                                              \
    OK(cusparse##X##bsrsv2_bufferSize(handle, by_row, plain, N, N, of, values, offsets, columns, SIZE, vector,         \
                                      &bytes));                                                                        \
    CHECK(bytes <= WORK_BYTES);                                                                                        \
    OK(cusparse##X##bsrsv2_analysis(handle, by_row, plain, N, N, of, values, offsets, columns, SIZE, vector, policy,   \
                                    work));                                                                            \
    OK(cusparse##X##bsrsv2_solve(handle, by_row, plain, N, N, one, of, values, offsets, columns, SIZE, vector, in,     \
                                 out, policy, work));                                                                  \
    OK(cusparse##X##bsrsm2_bufferSize(handle, by_row, plain, plain, N, WIDTH, N, of, values, offsets, columns, SIZE,   \
                                      matrix, &bytes));                                                                \
    CHECK(bytes <= WORK_BYTES);                                                                                        \
    OK(cusparse##X##bsrsm2_analysis(handle, by_row, plain, plain, N, WIDTH, N, of, values, offsets, columns, SIZE,     \
                                    matrix, policy, work));                                                            \
    OK(cusparse##X##bsrsm2_solve(handle, by_row, plain, plain, N, WIDTH, N, one, of, values, offsets, columns, SIZE,   \
                                 matrix, in, N * SIZE, out, N * SIZE, policy, work));                                  \
  }

PRECISION(S, float)
PRECISION(D, double)
PRECISION(C, cuComplex)
PRECISION(Z, cuDoubleComplex)

static void fill(void) {
  int places[N + 1] = {0, 1, 2};
  REQUIRE(cudaMemcpy(offsets, places, sizeof places, cudaMemcpyHostToDevice), cudaSuccess);
  REQUIRE(cudaMemcpy(columns, places, N * sizeof *places, cudaMemcpyHostToDevice), cudaSuccess);
}

static void put(const void* one, size_t bytes) {
  for (int i = 0; i < N * SIZE * SIZE; ++i) {
    REQUIRE(cudaMemcpy((char*)values + i * bytes, one, bytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
}

static void check(void) {
  const float one = 1;
  const double two_words = 1;
  const cuComplex complex = {1, 0};
  const cuDoubleComplex wide = {1, 0};
  cusparseMatDescr_t lower;
  bsrsv2Info_t vector;
  bsrsm2Info_t matrix;
  int position = 0;
  OK(cusparseCreateMatDescr(&lower));
  OK(cusparseSetMatType(lower, CUSPARSE_MATRIX_TYPE_GENERAL));
  OK(cusparseSetMatFillMode(lower, CUSPARSE_FILL_MODE_LOWER));
  OK(cusparseSetMatDiagType(lower, CUSPARSE_DIAG_TYPE_NON_UNIT));
  OK(cusparseSetMatIndexBase(lower, CUSPARSE_INDEX_BASE_ZERO));
  OK(cusparseCreateBsrsv2Info(&vector));
  OK(cusparseCreateBsrsm2Info(&matrix));
  put(&one, sizeof one);
  check_S(lower, vector, matrix, &one);
  OK(cusparseXbsrsv2_zeroPivot(handle, vector, &position));
  CHECK(position == -1);
  position = 0;
  OK(cusparseXbsrsm2_zeroPivot(handle, matrix, &position));
  CHECK(position == -1);
  put(&two_words, sizeof two_words);
  check_D(lower, vector, matrix, &two_words);
  put(&complex, sizeof complex);
  check_C(lower, vector, matrix, &complex);
  put(&wide, sizeof wide);
  check_Z(lower, vector, matrix, &wide);
  OK(cusparseDestroyBsrsv2Info(vector));
  OK(cusparseDestroyBsrsm2Info(matrix));
  OK(cusparseDestroyMatDescr(lower));
}

int main(void) {
  char* memory = make_memory();
  offsets = (int*)memory;
  columns = offsets + 256;
  values = memory + (16 << 10);
  in = memory + (32 << 10);
  out = memory + (48 << 10);
  work = memory + WORK_BYTES;
  fill();
  OK(cusparseCreate(&handle));
  check();
  return finish(memory);
}
