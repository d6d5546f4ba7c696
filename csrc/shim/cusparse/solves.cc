// Triangular systems of equations with a sparse matrix. They are counted as products with their matrix: how many rows
// wait for others depends on where its elements are.
#include "shim/calls/library.h"
#include "shim/cusparse/context.h"

using namespace ph;
using namespace ph::cusparse;

namespace {

// What is solved must be square.
template <class B, class C>
cusparseStatus_t describe_solve(cusparseHandle_t handle, const char* name, cusparseOperation_t operation,
                                cusparseConstSpMatDescr_t a, B b, C c, Operation& of) noexcept {
  const cusparseStatus_t status = describe(handle, name, operation, find(a), find(b), find(c), of);
  return status == CUSPARSE_STATUS_SUCCESS && of.m != of.k ? CUSPARSE_STATUS_INVALID_VALUE : status;
}

}  // namespace

extern "C" {

PH_STATE(cusparseSpSVDescr_t, cusparseSpSV_createDescr, cusparseSpSV_destroyDescr)
PH_STATE(cusparseSpSMDescr_t, cusparseSpSM_createDescr, cusparseSpSM_destroyDescr)

PH_EXPORT cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                                   cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                                   cusparseDnVecDescr_t y, cudaDataType, cusparseSpSVAlg_t,
                                                   cusparseSpSVDescr_t, size_t* bytes) noexcept {
  PH_CALL(cusparseSpSV_bufferSize);
  Operation of{};
  return tell_workspace(describe_solve(handle, "spsv", operation, a, x, y, of), of, bytes);
}

PH_EXPORT cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                                 cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                                 cusparseDnVecDescr_t y, cudaDataType, cusparseSpSVAlg_t,
                                                 cusparseSpSVDescr_t, void* work) noexcept {
  PH_CALL(cusparseSpSV_analysis, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe_solve(handle, "spsv analysis", operation, a, x, y, of);
  return status == CUSPARSE_STATUS_SUCCESS ? record(handle, of, {work}) : status;
}

PH_EXPORT cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                              cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                              cusparseDnVecDescr_t y, cudaDataType, cusparseSpSVAlg_t,
                                              cusparseSpSVDescr_t) noexcept {
  PH_CALL(cusparseSpSV_solve, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe_solve(handle, "spsv", operation, a, x, y, of);
  return status == CUSPARSE_STATUS_SUCCESS ? record(handle, of, {find(y)->values}) : status;
}

PH_EXPORT cusparseStatus_t cusparseSpSM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation,
                                                   cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                                   cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType,
                                                   cusparseSpSMAlg_t, cusparseSpSMDescr_t, size_t* bytes) noexcept {
  PH_CALL(cusparseSpSM_bufferSize);
  Operation of{};
  return tell_workspace(describe_solve(handle, "spsm", operation, a, b, c, of), of, bytes);
}

PH_EXPORT cusparseStatus_t cusparseSpSM_analysis(cusparseHandle_t handle, cusparseOperation_t operation,
                                                 cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                                 cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType,
                                                 cusparseSpSMAlg_t, cusparseSpSMDescr_t, void* work) noexcept {
  PH_CALL(cusparseSpSM_analysis, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe_solve(handle, "spsm analysis", operation, a, b, c, of);
  return status == CUSPARSE_STATUS_SUCCESS ? record(handle, of, {work}) : status;
}

PH_EXPORT cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t handle, cusparseOperation_t operation,
                                              cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                              cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType,
                                              cusparseSpSMAlg_t, cusparseSpSMDescr_t) noexcept {
  PH_CALL(cusparseSpSM_solve, HostCost::Library);
  Operation of{};
  const cusparseStatus_t status = describe_solve(handle, "spsm", operation, a, b, c, of);
  return status == CUSPARSE_STATUS_SUCCESS ? record(handle, of, {find(c)->values}) : status;
}

}  // extern "C"
