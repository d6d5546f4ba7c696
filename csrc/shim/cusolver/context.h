// What the sources of our cuSOLVER share: handles, and the record of an operation.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "shim/core/device.h"
#include "shim/cusolver/cusolver_types.h"

namespace ph::cusolver {

// `m` x `n` is what LAPACK's routine of that name calls so; `columns` is the third size where there is one.
struct Operation {
  const char* name;
  cudaDataType type;
  std::int64_t m, n, columns, batch;
  double flops;     // of one matrix
  double elements;  // read or written, of one matrix
};

// Operation counts: LAPACK working note 41, leading terms; those of eigenvectors and singular vectors as in Golub and Van
// Loan, Matrix Computations, sections 7.5, 8.3 and 8.6.
Operation cholesky(cudaDataType type, std::int64_t n, std::int64_t batch) noexcept;
Operation cholesky_solve(cudaDataType type, std::int64_t n, std::int64_t columns, std::int64_t batch) noexcept;
Operation lu(cudaDataType type, std::int64_t m, std::int64_t n) noexcept;
Operation lu_solve(cudaDataType type, std::int64_t n, std::int64_t columns) noexcept;
Operation indefinite(cudaDataType type, std::int64_t n) noexcept;
Operation indefinite_solve(cudaDataType type, std::int64_t n, std::int64_t columns) noexcept;
Operation qr(cudaDataType type, std::int64_t m, std::int64_t n) noexcept;
Operation make_q(cudaDataType type, std::int64_t m, std::int64_t n, std::int64_t columns) noexcept;
Operation apply_q(cudaDataType type, std::int64_t m, std::int64_t n, std::int64_t columns) noexcept;
Operation eigen(cudaDataType type, cusolverEigMode_t mode, std::int64_t n, std::int64_t batch) noexcept;
Operation general_eigen(cudaDataType type, cusolverEigMode_t left, cusolverEigMode_t right, std::int64_t n) noexcept;
Operation singular(cudaDataType type, bool vectors, std::int64_t m, std::int64_t n, std::int64_t batch) noexcept;

// Assumed: a panel of 32 columns, and for eigenvectors and singular vectors a copy of the matrix.
std::int64_t workspace_elements(const Operation& of) noexcept;
cusolverStatus_t tell_workspace(cusolverDnHandle_t handle, const Operation& of, int* elements) noexcept;
cusolverStatus_t tell_workspace(cusolverDnHandle_t handle, const Operation& of, std::size_t* device_bytes,
                                std::size_t* host_bytes) noexcept;
// Nothing is known afterwards of `outputs`, workspaces among them, and `info`.
cusolverStatus_t record(cusolverDnHandle_t handle, const Operation& of, std::initializer_list<const void*> outputs,
                        int* info) noexcept;
// The same of an LU factorisation of one matrix.
cusolverStatus_t record_lu(cusolverDnHandle_t handle, const Operation& of, std::initializer_list<const void*> outputs,
                           int* info) noexcept;
// The same where the results lie where the `of.batch` pointers at `pointers` point.
cusolverStatus_t record_pointed(cusolverDnHandle_t handle, const Operation& of, const void* pointers,
                                int* info) noexcept;

}  // namespace ph::cusolver
