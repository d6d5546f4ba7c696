// Handles of cuSOLVER's dense part, and what its operations are counted as.
#include "shim/cusolver/context.h"

#include <algorithm>

#include "shim/calls/library.h"
#include "shim/core/handles.h"
#include "shim/launch/gemm.h"
#include "shim/launch/work.h"
#include "shim/streams/copies.h"
#include "shim/values/values.h"

using namespace ph;

namespace {

struct Context {
  cudaStream_t stream = nullptr;
};

constinit HandleTable<Context> contexts(HandleTag::Cusolver);

double real(std::int64_t size) noexcept { return static_cast<double>(size); }

bool is_sound(const cusolver::Operation& of) noexcept {
  return of.m >= 0 && of.n >= 0 && of.columns >= 0 && of.batch >= 0;
}

}  // namespace

namespace ph::cusolver {

Operation cholesky(cudaDataType type, std::int64_t n, std::int64_t batch) noexcept {
  return {"potrf", type, n, n, 0, batch, real(n) * real(n) * real(n) / 3, real(n) * real(n)};
}

Operation cholesky_solve(cudaDataType type, std::int64_t n, std::int64_t columns, std::int64_t batch) noexcept {
  const double solve = real(n) * real(n) * real(columns);
  return {"potrs", type, n, n, columns, batch, 2 * solve, real(n) * real(n) + 2 * real(n) * real(columns)};
}

Operation lu(cudaDataType type, std::int64_t m, std::int64_t n) noexcept {
  const double least = real(std::min(m, n)), most = real(std::max(m, n));
  return {"getrf", type, m, n, 0, 1, least * least * (most - least / 3), 2 * real(m) * real(n)};
}

Operation lu_solve(cudaDataType type, std::int64_t n, std::int64_t columns) noexcept {
  Operation of = cholesky_solve(type, n, columns, 1);
  of.name = "getrs";
  return of;
}

// Of a symmetric matrix that need not be positive: as many as Cholesky's, and a search for pivots.
Operation indefinite(cudaDataType type, std::int64_t n) noexcept {
  Operation of = cholesky(type, n, 1);
  of.name = "sytrf";
  return of;
}

Operation indefinite_solve(cudaDataType type, std::int64_t n, std::int64_t columns) noexcept {
  Operation of = cholesky_solve(type, n, columns, 1);
  of.name = "sytrs";
  return of;
}

Operation qr(cudaDataType type, std::int64_t m, std::int64_t n) noexcept {
  const double least = real(std::min(m, n)), most = real(std::max(m, n));
  return {"geqrf", type, m, n, 0, 1, 2 * least * least * (most - least / 3), 2 * real(m) * real(n)};
}

Operation make_q(cudaDataType type, std::int64_t m, std::int64_t n, std::int64_t columns) noexcept {
  const double k = real(columns);
  const double flops = 4 * real(m) * real(n) * k - 2 * (real(m) + real(n)) * k * k + 4.0 / 3 * k * k * k;
  return {"orgqr", type, m, n, columns, 1, std::max(flops, 0.0), 2 * real(m) * real(n)};
}

Operation apply_q(cudaDataType type, std::int64_t m, std::int64_t n, std::int64_t columns) noexcept {
  const double elements = 2 * real(m) * real(n) + real(std::max(m, n)) * real(columns);
  return {"ormqr", type, m, n, columns, 1, 4 * real(m) * real(n) * real(columns), elements};
}

Operation eigen(cudaDataType type, cusolverEigMode_t mode, std::int64_t n, std::int64_t batch) noexcept {
  const double cube = real(n) * real(n) * real(n);
  const double flops = mode == CUSOLVER_EIG_MODE_VECTOR ? 9 * cube : 4.0 / 3 * cube;
  return {"syevd", type, n, n, 0, batch, flops, 2 * real(n) * real(n)};
}

Operation general_eigen(cudaDataType type, cusolverEigMode_t left, cusolverEigMode_t right, std::int64_t n) noexcept {
  const double cube = real(n) * real(n) * real(n);
  const bool vectors = left == CUSOLVER_EIG_MODE_VECTOR || right == CUSOLVER_EIG_MODE_VECTOR;
  return {"geev", type, n, n, 0, 1, (vectors ? 25 : 10) * cube, 2 * real(n) * real(n)};
}

Operation singular(cudaDataType type, bool vectors, std::int64_t m, std::int64_t n, std::int64_t batch) noexcept {
  const double least = real(std::min(m, n)), most = real(std::max(m, n));
  const double values = 4 * least * least * (most - least / 3);
  const double both = 4 * most * most * least + 8 * most * least * least + 9 * least * least * least;
  return {"gesvd", type, m, n, 0, batch, vectors ? both : values, 2 * real(m) * real(n) + least * least};
}

std::int64_t workspace_elements(const Operation& of) noexcept {
  const std::string_view name = of.name;
  const bool has_vectors = name == "syevd" || name == "geev" || name == "gesvd";
  return of.batch * (32 * std::max<std::int64_t>(1, std::max(of.m, of.n)) + (has_vectors ? of.m * of.n : 0));
}

cusolverStatus_t tell_workspace(cusolverDnHandle_t handle, const Operation& of, int* elements) noexcept {
  if (!contexts.get(handle)) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (!elements || !is_sound(of)) return CUSOLVER_STATUS_INVALID_VALUE;
  *elements = static_cast<int>(workspace_elements(of));
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t tell_workspace(cusolverDnHandle_t handle, const Operation& of, std::size_t* device_bytes,
                                std::size_t* host_bytes) noexcept {
  if (!contexts.get(handle)) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (!device_bytes || !host_bytes || !is_sound(of)) return CUSOLVER_STATUS_INVALID_VALUE;
  *device_bytes = static_cast<std::size_t>(workspace_elements(of)) * number_bytes(of.type);
  *host_bytes = 0;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t record(cusolverDnHandle_t handle, const Operation& of, std::initializer_list<const void*> outputs,
                        int* info) noexcept {
  const Context* context = contexts.get(handle);
  if (!context) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (!is_sound(of)) return CUSOLVER_STATUS_INVALID_VALUE;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUSOLVER_STATUS_EXECUTION_FAILED;
  // Complex numbers: four multiplications and as many additions for one of each.
  const bool is_complex = of.type == CUDA_C_32F || of.type == CUDA_C_64F;
  const double batch = real(of.batch), flops = batch * of.flops * (is_complex ? 4 : 1);
  emit_kernel(stream, payloads::Factorization{
                          .operation = of.name,
                          .type = number_name(of.type),
                          .m = of.m,
                          .n = of.n,
                          .columns = of.columns,
                          .batch = of.batch,
                          .flops = static_cast<std::int64_t>(flops),
                          .bytes = static_cast<std::int64_t>(of.elements * batch * number_bytes(of.type)),
                      });
  forget_reached(outputs);
  forget_reached({info});
  return CUSOLVER_STATUS_SUCCESS;
}

// A size that cannot be is no error of the call, as measured on an H100 (CUDA 13.0, negative `m`); `info` says which of the
// parameters after the handle it is. Source: cuSOLVER's reference, `cusolverDn<t>getrf`.
cusolverStatus_t record_lu(cusolverDnHandle_t handle, const Operation& of, std::initializer_list<const void*> outputs,
                           int* info) noexcept {
  const Context* context = contexts.get(handle);
  if (!context || is_sound(of)) return record(handle, of, outputs, info);
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid || !can_fill(info, sizeof *info, 1)) return CUSOLVER_STATUS_EXECUTION_FAILED;
  fill_async(info, of.m < 0 ? -1U : -2U, sizeof *info, 1, stream);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t record_pointed(cusolverDnHandle_t handle, const Operation& of, const void* pointers,
                                int* info) noexcept {
  const cusolverStatus_t status = record(handle, of, {}, info);
  if (status == CUSOLVER_STATUS_SUCCESS) forget_pointed(pointers, static_cast<std::size_t>(of.batch));
  return status;
}

}  // namespace ph::cusolver

extern "C" {

PH_EXPORT cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) noexcept {
  PH_CALL(cusolverDnCreate, HostCost::Setup);
  if (!handle) return CUSOLVER_STATUS_INVALID_VALUE;
  ensure_context(current_device());
  *handle = static_cast<cusolverDnHandle_t>(contexts.create());
  return *handle ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

PH_EXPORT cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) noexcept {
  PH_CALL(cusolverDnDestroy, HostCost::Setup);
  return contexts.destroy(handle) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_INITIALIZED;
}

PH_EXPORT cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) noexcept {
  PH_CALL(cusolverDnSetStream);
  Context* context = contexts.get(handle);
  if (!context) return CUSOLVER_STATUS_NOT_INITIALIZED;
  context->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

}  // extern "C"
