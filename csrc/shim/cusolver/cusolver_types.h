// cuSOLVER as far as the shim needs it; see cublas_types.h for why these facts are declared here.
#pragma once

#include <cuda_runtime_api.h>

#include <stdint.h>

#ifdef PH_VENDOR_HEADERS
#include <cusolverDn.h>
#else
#include "shim/cublas/cublas_types.h"

typedef struct cusolverDnContext* cusolverDnHandle_t;
typedef struct cusolverDnParams* cusolverDnParams_t;
typedef struct gesvdjInfo* gesvdjInfo_t;
typedef struct syevjInfo* syevjInfo_t;

typedef enum {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6,
} cusolverStatus_t;

typedef enum {
  CUSOLVER_EIG_MODE_NOVECTOR = 0,
  CUSOLVER_EIG_MODE_VECTOR = 1,
} cusolverEigMode_t;

#endif  // PH_VENDOR_HEADERS
