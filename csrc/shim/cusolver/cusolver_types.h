// cuSOLVER as far as the shim needs it; see cublas_types.h for why these facts are declared here.
#pragma once

#include <cuda_runtime_api.h>

#ifdef PH_VENDOR_HEADERS
#include <cusolverDn.h>
#else

typedef struct cusolverDnContext* cusolverDnHandle_t;

typedef enum {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
} cusolverStatus_t;

#endif  // PH_VENDOR_HEADERS
