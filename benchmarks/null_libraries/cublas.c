/* cuBLAS: a handle that remembers nothing. */
#include "null.h"

NULL_EXPORT int cublasCreate_v2(void** handle) {
  *handle = new_handle();
  return 0;
}
NULL_EXPORT int cublasGetMathMode(void* handle, int* mode) {
  (void)handle;
  *mode = 0;
  return 0;
}
NULL_EXPORT int cublasGetPointerMode_v2(void* handle, int* mode) {
  (void)handle;
  *mode = 0;
  return 0;
}
