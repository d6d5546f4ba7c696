// cuDNN as far as the shim needs it: its headers come only inside a wheel of some 500 MB, so these facts are
// declared here and compared with the real headers where those are present (tests/shim/test_prototypes.py, which
// also compiles the bodies against them, with PH_VENDOR_HEADERS).
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>
#include <library_types.h>

#ifdef PH_VENDOR_HEADERS
#include <cudnn_graph.h>
#include <cudnn_version.h>
#else

// The release in the wheels of CUDA 13.2. PyTorch refuses one older than it was compiled with.
#define CUDNN_MAJOR 9
#define CUDNN_MINOR 26
#define CUDNN_PATCHLEVEL 0

typedef struct cudnnContext* cudnnHandle_t;

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
  CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 2004,
  CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006,
  CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE = 2010,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN = 3001,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
  CUDNN_STATUS_EXECUTION_FAILED = 5000,
};

#endif  // PH_VENDOR_HEADERS
