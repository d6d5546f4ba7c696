// NVRTC as far as the shim needs it; see cublas_types.h for why these facts are declared here.
#pragma once

#ifdef PH_VENDOR_HEADERS
#include <nvrtc.h>
#else

typedef enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_INVALID_INPUT = 3 } nvrtcResult;

#endif  // PH_VENDOR_HEADERS
