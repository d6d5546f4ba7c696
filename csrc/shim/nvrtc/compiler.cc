// The version of NVRTC; compiling is not modelled.
#include "shim/core/library.h"
#include "shim/nvrtc/nvrtc_types.h"

using namespace ph;

extern "C" {

PH_EXPORT nvrtcResult nvrtcVersion(int* major, int* minor) noexcept {
  PH_CALL(nvrtcVersion);
  if (!major || !minor) return NVRTC_ERROR_INVALID_INPUT;
  *major = 13;  // the wheels of CUDA 13.2
  *minor = 2;
  return NVRTC_SUCCESS;
}

}  // extern "C"
