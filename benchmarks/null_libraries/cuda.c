/* CUDA driver: what PyTorch asks about contexts. */
#include <dlfcn.h>

#include "null.h"

NULL_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  (void)device;
  *flags = 0;
  *active = 1;
  return 0;
}
NULL_EXPORT int cuCtxGetCurrent(void** context) {
  *context = (void*)16;
  return 0;
}
NULL_EXPORT int cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION_NUMBER;
  return 0;
}
NULL_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* result) {
  (void)version, (void)flags;
  *function = dlsym(RTLD_DEFAULT, symbol);
  if (result) *result = *function ? 0 : 1;
  return 0;
}
