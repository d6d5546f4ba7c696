// Operations that get their types as arguments.
#include "shim/calls/library.h"
#include "shim/cusolver/context.h"

using namespace ph;
using namespace ph::cusolver;

extern "C" {

// Parameters choose among algorithms, which are one to us: any pointer that is not null will do.
PH_EXPORT cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) noexcept {
  PH_CALL(cusolverDnCreateParams);
  static char parameters;
  if (!params) return CUSOLVER_STATUS_INVALID_VALUE;
  *params = reinterpret_cast<cusolverDnParams_t>(&parameters);
  return CUSOLVER_STATUS_SUCCESS;
}

PH_EXPORT cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) noexcept {
  PH_CALL(cusolverDnDestroyParams);
  return params ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

PH_EXPORT cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t,
                                                       int64_t n, cudaDataType type, const void*, int64_t, cudaDataType,
                                                       size_t* device_bytes, size_t* host_bytes) noexcept {
  PH_CALL(cusolverDnXpotrf_bufferSize);
  return tell_workspace(handle, cholesky(type, n, 1), device_bytes, host_bytes);
}

PH_EXPORT cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t, int64_t n,
                                            cudaDataType type, void* a, int64_t, cudaDataType, void* work, size_t,
                                            void* host_work, size_t, int* info) noexcept {
  PH_CALL(cusolverDnXpotrf, HostCost::Library);
  return record(handle, cholesky(type, n, 1), {a, work, host_work}, info);
}

PH_EXPORT cusolverStatus_t cusolverDnXpotrs(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t, int64_t n,
                                            int64_t columns, cudaDataType type, const void*, int64_t, cudaDataType,
                                            void* b, int64_t, int* info) noexcept {
  PH_CALL(cusolverDnXpotrs, HostCost::Library);
  return record(handle, cholesky_solve(type, n, columns, 1), {b}, info);
}

PH_EXPORT cusolverStatus_t cusolverDnXsytrs_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t, int64_t n,
                                                       int64_t columns, cudaDataType type, const void*, int64_t,
                                                       const int64_t*, cudaDataType, void*, int64_t,
                                                       size_t* device_bytes, size_t* host_bytes) noexcept {
  PH_CALL(cusolverDnXsytrs_bufferSize);
  return tell_workspace(handle, indefinite_solve(type, n, columns), device_bytes, host_bytes);
}

PH_EXPORT cusolverStatus_t cusolverDnXsytrs(cusolverDnHandle_t handle, cublasFillMode_t, int64_t n, int64_t columns,
                                            cudaDataType type, const void*, int64_t, const int64_t*, cudaDataType,
                                            void* b, int64_t, void* work, size_t, void* host_work, size_t,
                                            int* info) noexcept {
  PH_CALL(cusolverDnXsytrs, HostCost::Library);
  return record(handle, indefinite_solve(type, n, columns), {b, work, host_work}, info);
}

PH_EXPORT cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, int64_t m,
                                                       int64_t n, cudaDataType type, const void*, int64_t, cudaDataType,
                                                       const void*, cudaDataType, size_t* device_bytes,
                                                       size_t* host_bytes) noexcept {
  PH_CALL(cusolverDnXgeqrf_bufferSize);
  return tell_workspace(handle, qr(type, m, n), device_bytes, host_bytes);
}

PH_EXPORT cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t, int64_t m, int64_t n,
                                            cudaDataType type, void* a, int64_t, cudaDataType, void* tau, cudaDataType,
                                            void* work, size_t, void* host_work, size_t, int* info) noexcept {
  PH_CALL(cusolverDnXgeqrf, HostCost::Library);
  return record(handle, qr(type, m, n), {a, tau, work, host_work}, info);
}

PH_EXPORT cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t,
                                                       cusolverEigMode_t mode, cublasFillMode_t, int64_t n,
                                                       cudaDataType type, const void*, int64_t, cudaDataType,
                                                       const void*, cudaDataType, size_t* device_bytes,
                                                       size_t* host_bytes) noexcept {
  PH_CALL(cusolverDnXsyevd_bufferSize);
  return tell_workspace(handle, eigen(type, mode, n, 1), device_bytes, host_bytes);
}

PH_EXPORT cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t mode,
                                            cublasFillMode_t, int64_t n, cudaDataType type, void* a, int64_t,
                                            cudaDataType, void* w, cudaDataType, void* work, size_t, void* host_work,
                                            size_t, int* info) noexcept {
  PH_CALL(cusolverDnXsyevd, HostCost::Library);
  return record(handle, eigen(type, mode, n, 1), {a, w, work, host_work}, info);
}

PH_EXPORT cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t,
                                                             cusolverEigMode_t mode, cublasFillMode_t, int64_t n,
                                                             cudaDataType type, const void*, int64_t, cudaDataType,
                                                             const void*, cudaDataType, size_t* device_bytes,
                                                             size_t* host_bytes, int64_t batch) noexcept {
  PH_CALL(cusolverDnXsyevBatched_bufferSize);
  return tell_workspace(handle, eigen(type, mode, n, batch), device_bytes, host_bytes);
}

PH_EXPORT cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t mode,
                                                  cublasFillMode_t, int64_t n, cudaDataType type, void* a, int64_t,
                                                  cudaDataType, void* w, cudaDataType, void* work, size_t,
                                                  void* host_work, size_t, int* info, int64_t batch) noexcept {
  PH_CALL(cusolverDnXsyevBatched, HostCost::Library);
  return record(handle, eigen(type, mode, n, batch), {a, w, work, host_work}, info);
}

PH_EXPORT cusolverStatus_t cusolverDnXgeev_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t,
                                                      cusolverEigMode_t left, cusolverEigMode_t right, int64_t n,
                                                      cudaDataType type, const void*, int64_t, cudaDataType,
                                                      const void*, cudaDataType, const void*, int64_t, cudaDataType,
                                                      const void*, int64_t, cudaDataType, size_t* device_bytes,
                                                      size_t* host_bytes) noexcept {
  PH_CALL(cusolverDnXgeev_bufferSize);
  return tell_workspace(handle, general_eigen(type, left, right, n), device_bytes, host_bytes);
}

PH_EXPORT cusolverStatus_t cusolverDnXgeev(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t left,
                                           cusolverEigMode_t right, int64_t n, cudaDataType type, void* a, int64_t,
                                           cudaDataType, void* w, cudaDataType, void* vl, int64_t, cudaDataType,
                                           void* vr, int64_t, cudaDataType, void* work, size_t, void* host_work, size_t,
                                           int* info) noexcept {
  PH_CALL(cusolverDnXgeev, HostCost::Library);
  return record(handle, general_eigen(type, left, right, n), {a, w, vl, vr, work, host_work}, info);
}

}  // extern "C"
