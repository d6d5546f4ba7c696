/* cuDNN: its version. */
#include "null.h"

NULL_EXPORT size_t cudnnGetVersion(void) { return CUDNN_VERSION_NUMBER; }
