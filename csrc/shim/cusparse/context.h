// What the sources of our cuSPARSE share: handles, descriptors, and the record of an operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/core/device.h"
#include "shim/cusparse/cusparse_types.h"

namespace ph::cusparse {

struct Sparse {
  std::int64_t rows = 0, columns = 0, nonzeros = 0, batch = 1;
  std::int64_t index_bytes = 4;
  cudaDataType type = CUDA_R_32F;
  void* values = nullptr;
};

// A vector is a matrix of one column.
struct Dense {
  std::int64_t rows = 0, columns = 0, batch = 1;
  cudaDataType type = CUDA_R_32F;
  void* values = nullptr;
};

// Null: no such descriptor.
const Sparse* find(cusparseConstSpMatDescr_t descriptor) noexcept;
const Dense* find(cusparseConstDnMatDescr_t descriptor) noexcept;
const Dense* find(cusparseConstDnVecDescr_t descriptor) noexcept;

bool is_handle(cusparseHandle_t handle) noexcept;

// Rows, columns and inner size of the product that it is a part of; 0 where there is none.
struct Operation {
  const char* name;
  cudaDataType type;
  std::int64_t m, n, k, nonzeros, index_bytes, batch;
};

// Results, of which nothing is known afterwards, are not computed.
cusparseStatus_t record(cusparseHandle_t handle, const Operation& of,
                        std::initializer_list<const void*> outputs) noexcept;

}  // namespace ph::cusparse
