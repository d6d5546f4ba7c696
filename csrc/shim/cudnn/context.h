// What a cuDNN handle remembers.
#pragma once

#include "shim/core/handles.h"
#include "shim/cudnn/cudnn_types.h"

namespace ph::cudnn {

struct Context {
  cudaStream_t stream = nullptr;
};

extern HandleTable<Context> contexts;

}  // namespace ph::cudnn
