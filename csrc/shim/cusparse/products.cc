// Products of sparse and dense matrices, and conversions of coordinates to rows.
#include "shim/calls/library.h"
#include "shim/cusparse/context.h"

using namespace ph;
using namespace ph::cusparse;

namespace {

bool is_plain(cusparseOperation_t operation) noexcept { return operation == CUSPARSE_OPERATION_NON_TRANSPOSE; }

cusparseStatus_t describe(cusparseHandle_t handle, cusparseOperation_t operation, const Dense* a, const Sparse* c,
                          Operation& of) noexcept {
  if (!is_handle(handle)) return kNoHandle;
  if (!a || !c) return CUSPARSE_STATUS_INVALID_VALUE;
  const std::int64_t k = is_plain(operation) ? a->columns : a->rows;
  of = {"sddmm", c->type, c->rows, c->columns, k, c->nonzeros, c->index_bytes, c->batch};
  return CUSPARSE_STATUS_SUCCESS;
}

Operation on_indices(const char* name, std::int64_t rows, std::int64_t nonzeros) noexcept {
  return {name, CUDA_R_32I, rows, 0, 0, nonzeros, 4, 1};
}

// Assumed: keys and the permutation once more, to sort from one into the other.
cusparseStatus_t tell_sort_workspace(cusparseHandle_t handle, int nonzeros, std::size_t* bytes) noexcept {
  if (!is_handle(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (!bytes || nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = 3 * 4 * static_cast<std::size_t>(nonzeros);
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

namespace ph::cusparse {

cusparseStatus_t describe(cusparseHandle_t handle, const char* name, cusparseOperation_t operation, const Sparse* a,
                          const Dense* b, const Dense* c, Operation& of) noexcept {
  if (!is_handle(handle)) return kNoHandle;
  if (!a || !b || !c) return CUSPARSE_STATUS_INVALID_VALUE;
  const std::int64_t m = is_plain(operation) ? a->rows : a->columns;
  const std::int64_t k = is_plain(operation) ? a->columns : a->rows;
  if (c->rows != m) return CUSPARSE_STATUS_INVALID_VALUE;
  of = {name, a->type, m, c->columns, k, a->nonzeros, a->index_bytes, c->batch};
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tell_workspace(cusparseStatus_t status, const Operation& of, std::size_t* bytes) noexcept {
  if (status != CUSPARSE_STATUS_SUCCESS) return status;
  if (!bytes) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = static_cast<std::size_t>((of.m + 1) * of.index_bytes);
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace ph::cusparse

extern "C" {

PH_EXPORT cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation,
                                                   cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                                   cusparseConstDnMatDescr_t b, const void*, cusparseDnMatDescr_t c,
                                                   cudaDataType, cusparseSpMMAlg_t, size_t* bytes) noexcept {
  PH_CALL(cusparseSpMM_bufferSize);
  Operation of{};
  return tell_workspace(describe(handle, "spmm", operation, find(a), find(b), find(c), of), of, bytes);
}

PH_EXPORT cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t operation, cusparseOperation_t,
                                        const void*, cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                        const void*, cusparseDnMatDescr_t c, cudaDataType, cusparseSpMMAlg_t,
                                        void* work) noexcept {
  PH_CALL(cusparseSpMM, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe(handle, "spmm", operation, find(a), find(b), find(c), of);
  return status == CUSPARSE_STATUS_SUCCESS ? record(handle, of, {find(c)->values, work}) : status;
}

PH_EXPORT cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                                   cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                                   const void*, cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t,
                                                   size_t* bytes) noexcept {
  PH_CALL(cusparseSpMV_bufferSize);
  Operation of{};
  return tell_workspace(describe(handle, "spmv", operation, find(a), find(x), find(y), of), of, bytes);
}

PH_EXPORT cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                        cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void*,
                                        cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t, void* work) noexcept {
  PH_CALL(cusparseSpMV, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe(handle, "spmv", operation, find(a), find(x), find(y), of);
  return status == CUSPARSE_STATUS_SUCCESS ? record(handle, of, {find(y)->values, work}) : status;
}

PH_EXPORT cusparseStatus_t cusparseSDDMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation,
                                                    cusparseOperation_t, const void*, cusparseConstDnMatDescr_t a,
                                                    cusparseConstDnMatDescr_t, const void*, cusparseSpMatDescr_t c,
                                                    cudaDataType, cusparseSDDMMAlg_t, size_t* bytes) noexcept {
  PH_CALL(cusparseSDDMM_bufferSize);
  Operation of{};
  return tell_workspace(describe(handle, operation, find(a), find(c), of), of, bytes);
}

PH_EXPORT cusparseStatus_t cusparseSDDMM_preprocess(cusparseHandle_t handle, cusparseOperation_t operation,
                                                    cusparseOperation_t, const void*, cusparseConstDnMatDescr_t a,
                                                    cusparseConstDnMatDescr_t, const void*, cusparseSpMatDescr_t c,
                                                    cudaDataType, cusparseSDDMMAlg_t, void*) noexcept {
  PH_CALL(cusparseSDDMM_preprocess);
  Operation of{};
  return describe(handle, operation, find(a), find(c), of);
}

PH_EXPORT cusparseStatus_t cusparseSDDMM(cusparseHandle_t handle, cusparseOperation_t operation, cusparseOperation_t,
                                         const void*, cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t,
                                         const void*, cusparseSpMatDescr_t c, cudaDataType, cusparseSDDMMAlg_t,
                                         void* work) noexcept {
  PH_CALL(cusparseSDDMM, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe(handle, operation, find(a), find(c), of);
  return status == CUSPARSE_STATUS_SUCCESS ? record(handle, of, {find(c)->values, work}) : status;
}

PH_EXPORT cusparseStatus_t cusparseXcoo2csr(cusparseHandle_t handle, const int*, int nonzeros, int rows, int* offsets,
                                            cusparseIndexBase_t) noexcept {
  PH_CALL(cusparseXcoo2csr, HostCost::Library);
  if (nonzeros < 0 || rows < 0 || !offsets) return CUSPARSE_STATUS_INVALID_VALUE;
  return record(handle, on_indices("coo2csr", rows, nonzeros), {offsets});
}

PH_EXPORT cusparseStatus_t cusparseCreateIdentityPermutation(cusparseHandle_t handle, int n,
                                                             int* permutation) noexcept {
  PH_CALL(cusparseCreateIdentityPermutation, HostCost::Library);
  if (n < 0 || !permutation) return CUSPARSE_STATUS_INVALID_VALUE;
  return record(handle, on_indices("identity", 0, n), {permutation});
}

PH_EXPORT cusparseStatus_t cusparseXcoosort_bufferSizeExt(cusparseHandle_t handle, int, int, int nonzeros, const int*,
                                                          const int*, size_t* bytes) noexcept {
  PH_CALL(cusparseXcoosort_bufferSizeExt);
  return tell_sort_workspace(handle, nonzeros, bytes);
}

PH_EXPORT cusparseStatus_t cusparseXcoosortByRow(cusparseHandle_t handle, int m, int, int nonzeros, int* rows,
                                                 int* columns, int* permutation, void* work) noexcept {
  PH_CALL(cusparseXcoosortByRow, HostCost::Library);
  if (m < 0 || nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  return record(handle, on_indices("coosort", m, nonzeros), {rows, columns, permutation, work});
}

}  // extern "C"
