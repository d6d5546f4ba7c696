// What a cuBLAS handle remembers.
#pragma once

#include <cstddef>

#include "shim/core/handles.h"
#include "shim/cublas/cublas_types.h"

namespace ph::cublas {

struct Context {
  int device = 0;
  std::size_t memory_bytes = 0;  // taken from the device for the handle
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count_target = 0;
};

extern HandleTable<Context> contexts;

}  // namespace ph::cublas
