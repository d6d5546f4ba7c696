// NVRTC as far as the shim needs it; see cublas_types.h for why these facts are declared here.
#pragma once

#include <cstddef>

#ifdef PH_VENDOR_HEADERS
#include <nvrtc.h>
#else

typedef struct _nvrtcProgram* nvrtcProgram;

typedef enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_INVALID_INPUT = 3 } nvrtcResult;

#endif  // PH_VENDOR_HEADERS
