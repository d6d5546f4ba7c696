// Loaded code and its functions: one image behind modules (cuModule*), libraries (cuLibrary*) and kernels.
#pragma once

#include <memory>

#include "shim/cuda/driver.h"
#include "shim/cuda/image.h"
#include "shim/launch/launch.h"

namespace ph::driver {

struct Function {
  KernelFunction* kernel = nullptr;
  ImageKernel facts;
  void* owner = nullptr;  // the module's or library's handle
  int max_dynamic_shared_bytes = 0;
  int shared_carveout = -1;
  bool non_portable_cluster = false;
};

// `handle`: a CUfunction or a CUkernel; they are the same object here. Null: neither.
Function* find_function(const void* handle) noexcept;

// What a launch does once it has its stream.
CUresult launch_on(StreamRef stream, CUfunction function, const LaunchShape& shape, void** parameters, void** extra,
                   LaunchForm form = {}) noexcept;

}  // namespace ph::driver
