// Sums and products of two sparse matrices. How many elements of the result are not zero depends on where those of the
// operands are, which nobody computes: they are taken to be anywhere, each alike, and the program is given what is then
// to be expected.
#include <algorithm>
#include <cmath>

#include "shim/calls/library.h"
#include "shim/cusparse/context.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::cusparse;

namespace {

double real(std::int64_t count) noexcept { return static_cast<double>(count); }

// Places that are hit when so many things fall on them.
std::int64_t occupied(double things, double places) noexcept {
  return places > 0 ? static_cast<std::int64_t>(std::llround(-places * std::expm1(-things / places))) : 0;
}

// Its elements are the products of single elements: each of `a` meets a row of `b`.
cusparseStatus_t describe_product(cusparseHandle_t handle, const Sparse* a, const Sparse* b, const Sparse* c,
                                  Operation& of) noexcept {
  if (!is_handle(handle)) return kNoHandle;
  if (!a || !b || !c || a->columns != b->rows || c->rows != a->rows || c->columns != b->columns) {
    return CUSPARSE_STATUS_INVALID_VALUE;
  }
  const double products = b->rows > 0 ? real(a->nonzeros) * real(b->nonzeros) / real(b->rows) : 0;
  of = {"spgemm",       a->type, c->rows, c->columns, a->columns, static_cast<std::int64_t>(std::llround(products)),
        a->index_bytes, c->batch};
  return CUSPARSE_STATUS_SUCCESS;
}

// Two calls each: the first asks for the size of a buffer.
cusparseStatus_t tell_buffer(const Operation& of, std::size_t* bytes) noexcept {
  if (!bytes) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = static_cast<std::size_t>((of.m + 1 + of.nonzeros) * of.index_bytes);
  return CUSPARSE_STATUS_SUCCESS;
}

Operation sum(const char* name, cudaDataType type, int m, int n, int nonzeros) noexcept {
  return {name, type, m, n, 0, nonzeros, 4, 1};
}

bool is_sum(int m, int n, int first, int second) noexcept { return m >= 0 && n >= 0 && first >= 0 && second >= 0; }

cusparseStatus_t add(cusparseHandle_t handle, cudaDataType type, int m, int n, int first, int second, void* values,
                     int* columns) noexcept {
  if (!is_sum(m, n, first, second)) return CUSPARSE_STATUS_INVALID_VALUE;
  return record(handle, sum("csrgeam", type, m, n, first + second), {values, columns});
}

}  // namespace

extern "C" {

PH_STATE(cusparseSpGEMMDescr_t, cusparseSpGEMM_createDescr, cusparseSpGEMM_destroyDescr)

PH_EXPORT cusparseStatus_t cusparseSpGEMM_workEstimation(cusparseHandle_t handle, cusparseOperation_t,
                                                         cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                                         cusparseConstSpMatDescr_t b, const void*,
                                                         cusparseSpMatDescr_t c, cudaDataType, cusparseSpGEMMAlg_t,
                                                         cusparseSpGEMMDescr_t, size_t* bytes, void* buffer) noexcept {
  PH_CALL(cusparseSpGEMM_workEstimation, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe_product(handle, find(a), find(b), find(c), of);
  if (status != CUSPARSE_STATUS_SUCCESS) return status;
  if (!buffer) return tell_buffer(of, bytes);
  of.name = "spgemm estimation";
  return record(handle, of, {});
}

PH_EXPORT cusparseStatus_t cusparseSpGEMM_compute(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t,
                                                  const void*, cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b,
                                                  const void*, cusparseSpMatDescr_t c, cudaDataType,
                                                  cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t, size_t* bytes,
                                                  void* buffer) noexcept {
  PH_CALL(cusparseSpGEMM_compute, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe_product(handle, find(a), find(b), find(c), of);
  if (status != CUSPARSE_STATUS_SUCCESS) return status;
  if (!buffer) return tell_buffer(of, bytes);
  Sparse& result = *find_result(c);
  result.nonzeros = occupied(real(of.nonzeros), real(result.rows) * real(result.columns));
  record_synthetic(sizeof result.nonzeros);
  return record(handle, of, {});
}

PH_EXPORT cusparseStatus_t cusparseSpGEMM_copy(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t,
                                               const void*, cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b,
                                               const void*, cusparseSpMatDescr_t c, cudaDataType, cusparseSpGEMMAlg_t,
                                               cusparseSpGEMMDescr_t) noexcept {
  PH_CALL(cusparseSpGEMM_copy, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe_product(handle, find(a), find(b), find(c), of);
  if (status != CUSPARSE_STATUS_SUCCESS) return status;
  const Sparse& result = *find(c);
  of.name = "spgemm copy";
  of.nonzeros = result.nonzeros;
  return record(handle, of, {result.offsets, result.indices, result.values});
}

PH_EXPORT cusparseStatus_t cusparseXcsrgeam2Nnz(cusparseHandle_t handle, int m, int n, const cusparseMatDescr_t,
                                                int first, const int*, const int*, const cusparseMatDescr_t, int second,
                                                const int*, const int*, const cusparseMatDescr_t, int* offsets,
                                                int* nonzeros, void* work) noexcept {
  PH_CALL(cusparseXcsrgeam2Nnz, HostCost::Library);
  if (!is_sum(m, n, first, second) || !offsets || !nonzeros) return CUSPARSE_STATUS_INVALID_VALUE;
  const cusparseStatus_t status =
      record(handle, sum("csrgeam count", CUDA_R_32I, m, n, first + second), {offsets, work});
  if (status != CUSPARSE_STATUS_SUCCESS) return status;
  if (numbers_on_device(handle)) {
    forget_reached({nonzeros});
    return CUSPARSE_STATUS_SUCCESS;
  }
  // Of two that lie alike there are as many as of one; assumed, they do not.
  const double places = real(m) * real(n);
  const double common = places > 0 ? real(first) * real(second) / places : 0;
  *nonzeros = static_cast<int>(std::llround(real(first) + real(second) - common));
  record_synthetic(sizeof *nonzeros);
  return CUSPARSE_STATUS_SUCCESS;
}

#define PH_SUM(X, T, type)                                                                                            \
  PH_EXPORT cusparseStatus_t cusparse##X##csrgeam2_bufferSizeExt(                                                     \
      cusparseHandle_t handle, int m, int, const T*, const cusparseMatDescr_t, int, const T*, const int*, const int*, \
      const T*, const cusparseMatDescr_t, int, const T*, const int*, const int*, const cusparseMatDescr_t, const T*,  \
      const int*, const int*, size_t* bytes) noexcept {                                                               \
    PH_CALL(cusparse##X##csrgeam2_bufferSizeExt);                                                                     \
    return tell_workspace(handle, m, bytes);                                                                          \
  }                                                                                                                   \
  PH_EXPORT cusparseStatus_t cusparse##X##csrgeam2(                                                                   \
      cusparseHandle_t handle, int m, int n, const T*, const cusparseMatDescr_t, int first, const T*, const int*,     \
      const int*, const T*, const cusparseMatDescr_t, int second, const T*, const int*, const int*,                   \
      const cusparseMatDescr_t, T* values, int*, int* columns, void*) noexcept {                                      \
    PH_CALL(cusparse##X##csrgeam2, HostCost::Library);                                                                \
    return add(handle, type, m, n, first, second, values, columns);                                                   \
  }

PH_SUM(S, float, CUDA_R_32F)
PH_SUM(D, double, CUDA_R_64F)
PH_SUM(C, cuComplex, CUDA_C_32F)
PH_SUM(Z, cuDoubleComplex, CUDA_C_64F)

}  // extern "C"
