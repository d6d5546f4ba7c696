/* What the bodies share. They do the least with which PyTorch's example scripts get through: objects are numbers,
   memory is handed out once and never reused, nothing is computed, checked or waited for. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NULL_EXPORT __attribute__((visibility("default")))

enum { GPUS = 8, CUDA_VERSION_NUMBER = 13020, NCCL_VERSION_NUMBER = 23007, CUDNN_VERSION_NUMBER = 92000 };

/* Never null, and with the low bits zero as a pointer's are. */
static inline void* new_handle(void) {
  static uintptr_t last;
  return (void*)(__atomic_add_fetch(&last, 16, __ATOMIC_RELAXED));
}
