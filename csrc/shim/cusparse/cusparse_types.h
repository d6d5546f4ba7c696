// cuSPARSE as far as the shim needs it; see cublas_types.h for why these facts are declared here.
#pragma once

#include <cuda_runtime_api.h>

#ifdef PH_VENDOR_HEADERS
#include <cusparse.h>
#else

// The release in the wheels of CUDA 13.2.
#define CUSPARSE_VERSION 12710

typedef struct cusparseContext* cusparseHandle_t;

typedef enum {
  CUSPARSE_STATUS_SUCCESS = 0,
  CUSPARSE_STATUS_NOT_INITIALIZED = 1,
  CUSPARSE_STATUS_ALLOC_FAILED = 2,
  CUSPARSE_STATUS_INVALID_VALUE = 3,
  CUSPARSE_STATUS_ARCH_MISMATCH = 4,
  CUSPARSE_STATUS_EXECUTION_FAILED = 6,
  CUSPARSE_STATUS_INTERNAL_ERROR = 7,
  CUSPARSE_STATUS_NOT_SUPPORTED = 10,
} cusparseStatus_t;

typedef enum { CUSPARSE_POINTER_MODE_HOST = 0, CUSPARSE_POINTER_MODE_DEVICE = 1 } cusparsePointerMode_t;

#endif  // PH_VENDOR_HEADERS
