// Operations that have a name for each precision, real and complex.
#include "shim/calls/library.h"
#include "shim/cusolver/context.h"

using namespace ph;
using namespace ph::cusolver;

#define PH_STATUS PH_EXPORT cusolverStatus_t

#define PH_FACTORISATIONS(X, T, type)                                                                                 \
  PH_STATUS cusolverDn##X##getrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T*, int, int* size) noexcept {   \
    PH_CALL(cusolverDn##X##getrf_bufferSize);                                                                         \
    return tell_workspace(handle, lu(type, m, n), size);                                                              \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##getrf(cusolverDnHandle_t handle, int m, int n, T* a, int, T* work, int* pivots,            \
                                 int* info) noexcept {                                                                \
    PH_CALL(cusolverDn##X##getrf, HostCost::Library);                                                                 \
    return record_lu(handle, lu(type, m, n), {a, pivots, work}, info);                                                \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##getrs(cusolverDnHandle_t handle, cublasOperation_t, int n, int columns, const T*, int,     \
                                 const int*, T* b, int, int* info) noexcept {                                         \
    PH_CALL(cusolverDn##X##getrs, HostCost::Library);                                                                 \
    return record(handle, lu_solve(type, n, columns), {b}, info);                                                     \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##sytrf_bufferSize(cusolverDnHandle_t handle, int n, T*, int, int* size) noexcept {          \
    PH_CALL(cusolverDn##X##sytrf_bufferSize);                                                                         \
    return tell_workspace(handle, indefinite(type, n), size);                                                         \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##sytrf(cusolverDnHandle_t handle, cublasFillMode_t, int n, T* a, int, int* pivots, T* work, \
                                 int, int* info) noexcept {                                                           \
    PH_CALL(cusolverDn##X##sytrf, HostCost::Library);                                                                 \
    return record(handle, indefinite(type, n), {a, pivots, work}, info);                                              \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##potrfBatched(cusolverDnHandle_t handle, cublasFillMode_t, int n, T** a, int, int* info,    \
                                        int batch) noexcept {                                                         \
    PH_CALL(cusolverDn##X##potrfBatched, HostCost::Library);                                                          \
    return record_pointed(handle, cholesky(type, n, batch), a, info);                                                 \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##potrsBatched(cusolverDnHandle_t handle, cublasFillMode_t, int n, int columns, T**, int,    \
                                        T** b, int, int* info, int batch) noexcept {                                  \
    PH_CALL(cusolverDn##X##potrsBatched, HostCost::Library);                                                          \
    return record_pointed(handle, cholesky_solve(type, n, columns, batch), b, info);                                  \
  }

#define PH_ORTHOGONAL(X, T, type, gqr, mqr)                                                                          \
  PH_STATUS cusolverDn##X##geqrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T*, int, int* size) noexcept {  \
    PH_CALL(cusolverDn##X##geqrf_bufferSize);                                                                        \
    return tell_workspace(handle, qr(type, m, n), size);                                                             \
  }                                                                                                                  \
  PH_STATUS cusolverDn##X##geqrf(cusolverDnHandle_t handle, int m, int n, T* a, int, T* tau, T* work, int,           \
                                 int* info) noexcept {                                                               \
    PH_CALL(cusolverDn##X##geqrf, HostCost::Library);                                                                \
    return record(handle, qr(type, m, n), {a, tau, work}, info);                                                     \
  }                                                                                                                  \
  PH_STATUS cusolverDn##X##gqr##_bufferSize(cusolverDnHandle_t handle, int m, int n, int k, const T*, int, const T*, \
                                            int* size) noexcept {                                                    \
    PH_CALL(cusolverDn##X##gqr##_bufferSize);                                                                        \
    return tell_workspace(handle, make_q(type, m, n, k), size);                                                      \
  }                                                                                                                  \
  PH_STATUS cusolverDn##X##gqr(cusolverDnHandle_t handle, int m, int n, int k, T* a, int, const T*, T* work, int,    \
                               int* info) noexcept {                                                                 \
    PH_CALL(cusolverDn##X##gqr, HostCost::Library);                                                                  \
    return record(handle, make_q(type, m, n, k), {a, work}, info);                                                   \
  }                                                                                                                  \
  PH_STATUS cusolverDn##X##mqr##_bufferSize(cusolverDnHandle_t handle, cublasSideMode_t, cublasOperation_t, int m,   \
                                            int n, int k, const T*, int, const T*, const T*, int,                    \
                                            int* size) noexcept {                                                    \
    PH_CALL(cusolverDn##X##mqr##_bufferSize);                                                                        \
    return tell_workspace(handle, apply_q(type, m, n, k), size);                                                     \
  }                                                                                                                  \
  PH_STATUS cusolverDn##X##mqr(cusolverDnHandle_t handle, cublasSideMode_t, cublasOperation_t, int m, int n, int k,  \
                               const T*, int, const T*, T* c, int, T* work, int, int* info) noexcept {               \
    PH_CALL(cusolverDn##X##mqr, HostCost::Library);                                                                  \
    return record(handle, apply_q(type, m, n, k), {c, work}, info);                                                  \
  }

#define PH_SPECTRAL(X, T, R, type)                                                                                     \
  PH_STATUS cusolverDn##X##gesvd_bufferSize(cusolverDnHandle_t handle, int m, int n, int* size) noexcept {             \
    PH_CALL(cusolverDn##X##gesvd_bufferSize);                                                                          \
    return tell_workspace(handle, singular(type, true, m, n, 1), size);                                                \
  }                                                                                                                    \
  PH_STATUS cusolverDn##X##gesvd(cusolverDnHandle_t handle, signed char jobu, signed char jobvt, int m, int n, T* a,   \
                                 int, R* s, T* u, int, T* v, int, T* work, int, R* real_work, int* info) noexcept {    \
    PH_CALL(cusolverDn##X##gesvd, HostCost::Library);                                                                  \
    return record(handle, singular(type, jobu != 'N' || jobvt != 'N', m, n, 1), {a, s, u, v, work, real_work}, info);  \
  }                                                                                                                    \
  PH_STATUS cusolverDn##X##gesvdj_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode, int, int m, int n,     \
                                             const T*, int, const R*, const T*, int, const T*, int, int* size,         \
                                             gesvdjInfo_t) noexcept {                                                  \
    PH_CALL(cusolverDn##X##gesvdj_bufferSize);                                                                         \
    return tell_workspace(handle, singular(type, mode == CUSOLVER_EIG_MODE_VECTOR, m, n, 1), size);                    \
  }                                                                                                                    \
  PH_STATUS cusolverDn##X##gesvdj(cusolverDnHandle_t handle, cusolverEigMode_t mode, int, int m, int n, T* a, int,     \
                                  R* s, T* u, int, T* v, int, T* work, int, int* info, gesvdjInfo_t) noexcept {        \
    PH_CALL(cusolverDn##X##gesvdj, HostCost::Library);                                                                 \
    return record(handle, singular(type, mode == CUSOLVER_EIG_MODE_VECTOR, m, n, 1), {a, s, u, v, work}, info);        \
  }                                                                                                                    \
  PH_STATUS cusolverDn##X##gesvdjBatched_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode, int m, int n,   \
                                                    const T*, int, const R*, const T*, int, const T*, int, int* size,  \
                                                    gesvdjInfo_t, int batch) noexcept {                                \
    PH_CALL(cusolverDn##X##gesvdjBatched_bufferSize);                                                                  \
    return tell_workspace(handle, singular(type, mode == CUSOLVER_EIG_MODE_VECTOR, m, n, batch), size);                \
  }                                                                                                                    \
  PH_STATUS cusolverDn##X##gesvdjBatched(cusolverDnHandle_t handle, cusolverEigMode_t mode, int m, int n, T* a, int,   \
                                         R* s, T* u, int, T* v, int, T* work, int, int* info, gesvdjInfo_t,            \
                                         int batch) noexcept {                                                         \
    PH_CALL(cusolverDn##X##gesvdjBatched, HostCost::Library);                                                          \
    return record(handle, singular(type, mode == CUSOLVER_EIG_MODE_VECTOR, m, n, batch), {a, s, u, v, work}, info);    \
  }                                                                                                                    \
  PH_STATUS cusolverDn##X##gesvdaStridedBatched_bufferSize(                                                            \
      cusolverDnHandle_t handle, cusolverEigMode_t mode, int, int m, int n, const T*, int, long long, const R*,        \
      long long, const T*, int, long long, const T*, int, long long, int* size, int batch) noexcept {                  \
    PH_CALL(cusolverDn##X##gesvdaStridedBatched_bufferSize);                                                           \
    return tell_workspace(handle, singular(type, mode == CUSOLVER_EIG_MODE_VECTOR, m, n, batch), size);                \
  }                                                                                                                    \
  PH_STATUS cusolverDn##X##gesvdaStridedBatched(                                                                       \
      cusolverDnHandle_t handle, cusolverEigMode_t mode, int, int m, int n, const T*, int, long long, R* s, long long, \
      T* u, int, long long, T* v, int, long long, T* work, int, int* info, double* residuals, int batch) noexcept {    \
    PH_CALL(cusolverDn##X##gesvdaStridedBatched, HostCost::Library);                                                   \
    return record(handle, singular(type, mode == CUSOLVER_EIG_MODE_VECTOR, m, n, batch), {s, u, v, work, residuals},   \
                  info);                                                                                               \
  }

#define PH_JACOBI(X, T, R, type, evj)                                                                                 \
  PH_STATUS cusolverDn##X##evj##_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t,      \
                                            int n, const T*, int, const R*, int* size, syevjInfo_t) noexcept {        \
    PH_CALL(cusolverDn##X##evj##_bufferSize);                                                                         \
    return tell_workspace(handle, eigen(type, mode, n, 1), size);                                                     \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##evj(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t, int n, T* a, int, \
                               R* w, T* work, int, int* info, syevjInfo_t) noexcept {                                 \
    PH_CALL(cusolverDn##X##evj, HostCost::Library);                                                                   \
    return record(handle, eigen(type, mode, n, 1), {a, w, work}, info);                                               \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##evj##Batched_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode,                 \
                                                   cublasFillMode_t, int n, const T*, int, const R*, int* size,       \
                                                   syevjInfo_t, int batch) noexcept {                                 \
    PH_CALL(cusolverDn##X##evj##Batched_bufferSize);                                                                  \
    return tell_workspace(handle, eigen(type, mode, n, batch), size);                                                 \
  }                                                                                                                   \
  PH_STATUS cusolverDn##X##evj##Batched(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t, int n,   \
                                        T* a, int, R* w, T* work, int, int* info, syevjInfo_t, int batch) noexcept {  \
    PH_CALL(cusolverDn##X##evj##Batched, HostCost::Library);                                                          \
    return record(handle, eigen(type, mode, n, batch), {a, w, work}, info);                                           \
  }

// `R`: the type of singular values. `gqr`, `mqr`: names of what orthogonal, or unitary, matrices are made and applied by.
// `evj`: of what finds the eigenvalues of symmetric, or Hermitian, ones by Jacobi's method.
#define PH_FAMILY(X, T, R, type, gqr, mqr, evj) \
  PH_FACTORISATIONS(X, T, type)                 \
  PH_ORTHOGONAL(X, T, type, gqr, mqr)           \
  PH_SPECTRAL(X, T, R, type)                    \
  PH_JACOBI(X, T, R, type, evj)

// How exact Jacobi's method is to be: any pointer that is not null will do.
#define PH_INFO(Info, create, destroy)                                     \
  PH_STATUS create(Info* info) noexcept {                                  \
    PH_CALL(create);                                                       \
    static char parameters;                                                \
    if (!info) return CUSOLVER_STATUS_INVALID_VALUE;                       \
    *info = reinterpret_cast<Info>(&parameters);                           \
    return CUSOLVER_STATUS_SUCCESS;                                        \
  }                                                                        \
  PH_STATUS destroy(Info info) noexcept {                                  \
    PH_CALL(destroy);                                                      \
    return info ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE; \
  }

extern "C" {

PH_FAMILY(S, float, float, CUDA_R_32F, orgqr, ormqr, syevj)
PH_FAMILY(D, double, double, CUDA_R_64F, orgqr, ormqr, syevj)
PH_FAMILY(C, cuComplex, float, CUDA_C_32F, ungqr, unmqr, heevj)
PH_FAMILY(Z, cuDoubleComplex, double, CUDA_C_64F, ungqr, unmqr, heevj)

PH_INFO(gesvdjInfo_t, cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)
PH_INFO(syevjInfo_t, cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)

PH_STATUS cusolverDnXgesvdjSetTolerance(gesvdjInfo_t info, double) noexcept {
  PH_CALL(cusolverDnXgesvdjSetTolerance);
  return info ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

PH_STATUS cusolverDnXgesvdjSetMaxSweeps(gesvdjInfo_t info, int) noexcept {
  PH_CALL(cusolverDnXgesvdjSetMaxSweeps);
  return info ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

PH_STATUS cusolverDnXgesvdjSetSortEig(gesvdjInfo_t info, int) noexcept {
  PH_CALL(cusolverDnXgesvdjSetSortEig);
  return info ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

}  // extern "C"
