// cuFFT as far as the shim needs it; see cublas_types.h for why these facts are declared here.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#ifdef PH_VENDOR_HEADERS
#include <cufftXt.h>
#else

typedef int cufftHandle;

typedef enum {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_INVALID_TYPE = 3,
  CUFFT_INVALID_VALUE = 4,
  CUFFT_EXEC_FAILED = 6,
  CUFFT_INVALID_SIZE = 8,
} cufftResult;

#endif  // PH_VENDOR_HEADERS
