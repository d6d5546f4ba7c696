/* Any program that links the CUDA runtime statically. */
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void) {
  int count = 0;
  printf("%d\n", cudaGetDeviceCount(&count));
  return 0;
}
