// What a cuDNN handle remembers, and the descriptors of the older interface that several of its parts read.
#pragma once

#include "shim/core/handles.h"
#include "shim/cudnn/tensor.h"

namespace ph::cudnn {

struct Context {
  cudaStream_t stream = nullptr;
};

struct Dropout {
  bool drops = false;
};

extern HandleTable<Context> contexts;
extern HandleTable<Tensor> tensors;
extern HandleTable<Dropout> dropouts;

}  // namespace ph::cudnn
