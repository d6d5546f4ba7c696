// What the sources of our cuSPARSE share: handles, descriptors, and the record of an operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "shim/core/device.h"
#include "shim/cusparse/cusparse_types.h"

namespace ph::cusparse {

struct Sparse {
  std::int64_t rows = 0, columns = 0, nonzeros = 0, batch = 1;
  std::int64_t index_bytes = 4;
  cudaDataType type = CUDA_R_32F;
  void* values = nullptr;
  void* offsets = nullptr;  // of rows, where they have any
  void* indices = nullptr;
};

// A vector is a matrix of one column.
struct Dense {
  std::int64_t rows = 0, columns = 0, batch = 1;
  cudaDataType type = CUDA_R_32F;
  void* values = nullptr;
};

// Null: no such descriptor.
Sparse* find_result(cusparseSpMatDescr_t descriptor) noexcept;
const Sparse* find(cusparseConstSpMatDescr_t descriptor) noexcept;
const Dense* find(cusparseConstDnMatDescr_t descriptor) noexcept;
const Dense* find(cusparseConstDnVecDescr_t descriptor) noexcept;

// Descriptors of which nothing is asked later: any pointer that is not null will do.
template <class Descriptor>
cusparseStatus_t give_state(Descriptor* descriptor) noexcept {
  static char state;
  if (!descriptor) return CUSPARSE_STATUS_INVALID_VALUE;
  *descriptor = reinterpret_cast<Descriptor>(&state);
  return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t is_there(const void* descriptor) noexcept {
  return descriptor ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

bool is_handle(cusparseHandle_t handle) noexcept;
// What the generic interface (cusparseSpMM, ...) answers where none is; the older one says CUSPARSE_STATUS_NOT_INITIALIZED.
// Source: cuSPARSE of CUDA 13.0.
inline constexpr cusparseStatus_t kNoHandle = CUSPARSE_STATUS_INVALID_VALUE;
// Whether numbers that a call takes or gives lie on the device.
bool numbers_on_device(cusparseHandle_t handle) noexcept;

// Rows, columns and inner size of the product that it is a part of; 0 where there is none.
struct Operation {
  const char* name;
  cudaDataType type;
  std::int64_t m, n, k, nonzeros, index_bytes, batch;
};

// A sparse matrix times a dense one or a vector, or the solution of what such a product makes.
cusparseStatus_t describe(cusparseHandle_t handle, const char* name, cusparseOperation_t operation, const Sparse* a,
                          const Dense* b, const Dense* c, Operation& of) noexcept;
// Assumed: where each row of the result begins.
cusparseStatus_t tell_workspace(cusparseStatus_t status, const Operation& of, std::size_t* bytes) noexcept;
// Likewise; the older interface has no descriptors, and some of it tells sizes as int.
template <class Size>
cusparseStatus_t tell_workspace(cusparseHandle_t handle, int rows, Size* bytes) noexcept {
  if (!is_handle(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (rows < 0 || !bytes) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = static_cast<Size>(4 * (std::int64_t{rows} + 1));
  return CUSPARSE_STATUS_SUCCESS;
}
// Results, of which nothing is known afterwards, are not computed.
cusparseStatus_t record(cusparseHandle_t handle, const Operation& of,
                        std::initializer_list<const void*> outputs) noexcept;

}  // namespace ph::cusparse

// The calls that make and destroy such a descriptor.
#define PH_STATE(Descriptor, create, destroy)                          \
  PH_EXPORT cusparseStatus_t create(Descriptor* descriptor) noexcept { \
    PH_CALL(create);                                                   \
    return ph::cusparse::give_state(descriptor);                       \
  }                                                                    \
  PH_EXPORT cusparseStatus_t destroy(Descriptor descriptor) noexcept { \
    PH_CALL(destroy);                                                  \
    return ph::cusparse::is_there(descriptor);                         \
  }
