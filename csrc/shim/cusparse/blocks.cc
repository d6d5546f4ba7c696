// Matrices of square blocks, and the descriptors of the older interface that they come with.
#include "shim/calls/library.h"
#include "shim/cusparse/context.h"

using namespace ph;
using namespace ph::cusparse;

namespace {

// `rows`, `columns` and `blocks` count blocks of `size` x `size` elements; `width`: columns of the dense operand.
struct Blocks {
  const char* name;
  cudaDataType type;
  int rows, columns, blocks, size, width;
};

cusparseStatus_t run(cusparseHandle_t handle, const Blocks& of, const void* output) noexcept {
  if (!is_handle(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (of.rows < 0 || of.columns < 0 || of.blocks < 0 || of.size < 1 || of.width < 0) {
    return CUSPARSE_STATUS_INVALID_VALUE;
  }
  const std::int64_t size = of.size;
  return record(handle, {of.name, of.type, of.rows * size, of.width, of.columns * size, of.blocks * size * size, 4, 1},
                {output});
}

// Of elements that nobody knows, those on the diagonal are not zero.
cusparseStatus_t tell_no_zero(cusparseHandle_t handle, const void* info, int* position) noexcept {
  if (!is_handle(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (!info || !position || numbers_on_device(handle)) return CUSPARSE_STATUS_INVALID_VALUE;
  *position = -1;
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

#define PH_STATUS PH_EXPORT cusparseStatus_t
#define PH_DESCRIPTOR const cusparseMatDescr_t

#define PH_BLOCK_PRODUCTS(X, T, type)                                                                                  \
  PH_STATUS cusparse##X##bsrmv(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t, int rows,            \
                               int columns, int blocks, const T*, PH_DESCRIPTOR, const T*, const int*, const int*,     \
                               int size, const T*, const T*, T* y) noexcept {                                          \
    PH_CALL(cusparse##X##bsrmv, HostCost::Library);                                                                    \
    return run(handle, {"bsrmv", type, rows, columns, blocks, size, 1}, y);                                            \
  }                                                                                                                    \
  PH_STATUS cusparse##X##bsrmm(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t, cusparseOperation_t, \
                               int rows, int n, int columns, int blocks, const T*, PH_DESCRIPTOR, const T*,            \
                               const int*, const int*, int size, const T*, int, const T*, T* c, int) noexcept {        \
    PH_CALL(cusparse##X##bsrmm, HostCost::Library);                                                                    \
    return run(handle, {"bsrmm", type, rows, columns, blocks, size, n}, c);                                            \
  }

#define PH_BLOCK_SOLVES(X, T, type)                                                                                    \
  PH_STATUS cusparse##X##bsrsv2_bufferSize(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t,          \
                                           int rows, int, PH_DESCRIPTOR, T*, const int*, const int*, int,              \
                                           bsrsv2Info_t, int* bytes) noexcept {                                        \
    PH_CALL(cusparse##X##bsrsv2_bufferSize);                                                                           \
    return tell_workspace(handle, rows, bytes);                                                                        \
  }                                                                                                                    \
  PH_STATUS cusparse##X##bsrsv2_analysis(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t, int rows,  \
                                         int blocks, PH_DESCRIPTOR, const T*, const int*, const int*, int size,        \
                                         bsrsv2Info_t, cusparseSolvePolicy_t, void*) noexcept {                        \
    PH_CALL(cusparse##X##bsrsv2_analysis, HostCost::Library);                                                          \
    return run(handle, {"bsrsv analysis", type, rows, rows, blocks, size, 1}, nullptr);                                \
  }                                                                                                                    \
  PH_STATUS cusparse##X##bsrsv2_solve(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t, int rows,     \
                                      int blocks, const T*, PH_DESCRIPTOR, const T*, const int*, const int*, int size, \
                                      bsrsv2Info_t, const T*, T* x, cusparseSolvePolicy_t, void*) noexcept {           \
    PH_CALL(cusparse##X##bsrsv2_solve, HostCost::Library);                                                             \
    return run(handle, {"bsrsv", type, rows, rows, blocks, size, 1}, x);                                               \
  }                                                                                                                    \
  PH_STATUS cusparse##X##bsrsm2_bufferSize(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t,          \
                                           cusparseOperation_t, int rows, int, int, PH_DESCRIPTOR, T*, const int*,     \
                                           const int*, int, bsrsm2Info_t, int* bytes) noexcept {                       \
    PH_CALL(cusparse##X##bsrsm2_bufferSize);                                                                           \
    return tell_workspace(handle, rows, bytes);                                                                        \
  }                                                                                                                    \
  PH_STATUS cusparse##X##bsrsm2_analysis(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t,            \
                                         cusparseOperation_t, int rows, int n, int blocks, PH_DESCRIPTOR, const T*,    \
                                         const int*, const int*, int size, bsrsm2Info_t, cusparseSolvePolicy_t,        \
                                         void*) noexcept {                                                             \
    PH_CALL(cusparse##X##bsrsm2_analysis, HostCost::Library);                                                          \
    return run(handle, {"bsrsm analysis", type, rows, rows, blocks, size, n}, nullptr);                                \
  }                                                                                                                    \
  PH_STATUS cusparse##X##bsrsm2_solve(cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t,               \
                                      cusparseOperation_t, int rows, int n, int blocks, const T*, PH_DESCRIPTOR,       \
                                      const T*, const int*, const int*, int size, bsrsm2Info_t, const T*, int, T* x,   \
                                      int, cusparseSolvePolicy_t, void*) noexcept {                                    \
    PH_CALL(cusparse##X##bsrsm2_solve, HostCost::Library);                                                             \
    return run(handle, {"bsrsm", type, rows, rows, blocks, size, n}, x);                                               \
  }

#define PH_BLOCKS(X, T, type)   \
  PH_BLOCK_PRODUCTS(X, T, type) \
  PH_BLOCK_SOLVES(X, T, type)

extern "C" {

PH_BLOCKS(S, float, CUDA_R_32F)
PH_BLOCKS(D, double, CUDA_R_64F)
PH_BLOCKS(C, cuComplex, CUDA_C_32F)
PH_BLOCKS(Z, cuDoubleComplex, CUDA_C_64F)

PH_STATE(cusparseMatDescr_t, cusparseCreateMatDescr, cusparseDestroyMatDescr)
PH_STATE(bsrsv2Info_t, cusparseCreateBsrsv2Info, cusparseDestroyBsrsv2Info)
PH_STATE(bsrsm2Info_t, cusparseCreateBsrsm2Info, cusparseDestroyBsrsm2Info)

// What is said of a matrix makes no difference to what is counted.
PH_STATUS cusparseSetMatType(cusparseMatDescr_t descriptor, cusparseMatrixType_t) noexcept {
  PH_CALL(cusparseSetMatType);
  return is_there(descriptor);
}

PH_STATUS cusparseSetMatFillMode(cusparseMatDescr_t descriptor, cusparseFillMode_t) noexcept {
  PH_CALL(cusparseSetMatFillMode);
  return is_there(descriptor);
}

PH_STATUS cusparseSetMatDiagType(cusparseMatDescr_t descriptor, cusparseDiagType_t) noexcept {
  PH_CALL(cusparseSetMatDiagType);
  return is_there(descriptor);
}

PH_STATUS cusparseSetMatIndexBase(cusparseMatDescr_t descriptor, cusparseIndexBase_t) noexcept {
  PH_CALL(cusparseSetMatIndexBase);
  return is_there(descriptor);
}

PH_STATUS cusparseXbsrsv2_zeroPivot(cusparseHandle_t handle, bsrsv2Info_t info, int* position) noexcept {
  PH_CALL(cusparseXbsrsv2_zeroPivot);
  return tell_no_zero(handle, info, position);
}

PH_STATUS cusparseXbsrsm2_zeroPivot(cusparseHandle_t handle, bsrsm2Info_t info, int* position) noexcept {
  PH_CALL(cusparseXbsrsm2_zeroPivot);
  return tell_no_zero(handle, info, position);
}

}  // extern "C"
