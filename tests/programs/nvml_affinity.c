/* covers: nvmlDeviceGetCpuAffinity nvmlDeviceGetCpuAffinityWithinScope nvmlDeviceGetMemoryAffinity
   nvmlDeviceSetCpuAffinity nvmlDeviceClearCpuAffinity */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "shim/nvml/nvml_types.h"

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t, unsigned int, unsigned long*);
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t, unsigned int, unsigned long*, nvmlAffinityScope_t);
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t, unsigned int, unsigned long*, nvmlAffinityScope_t);
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t);
nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t);

#define OK(call) REQUIRE(call, NVML_SUCCESS)

enum { kWords = 16 };

static int count_bits(const unsigned long* words) {
  int bits = 0;
  for (int i = 0; i < kWords; ++i) bits += __builtin_popcountl(words[i]);
  return bits;
}

/* Processors that this thread may run on. */
static int count_own(void) {
  cpu_set_t own;
  CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
  return CPU_COUNT(&own);
}

static void check_binding(nvmlDevice_t device, unsigned long* near) {
  cpu_set_t one;
  const int before = count_own();
  CPU_ZERO(&one);
  CPU_SET(__builtin_ctzl(near[0]), &one);
  if (before < 2 || sched_setaffinity(0, sizeof one, &one) != 0) return;
  CHECK(count_own() == 1);
  OK(nvmlDeviceClearCpuAffinity(device));
  CHECK(count_own() >= before);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  OK(nvmlDeviceSetCpuAffinity(device));
  CHECK(count_own() > 1);
}

int main(void) {
  nvmlDevice_t device;
  unsigned long words[kWords], scoped[kWords], nodes[kWords];
  OK(nvmlInit_v2());
  OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
  memset(words, 0xff, sizeof words);
  OK(nvmlDeviceGetCpuAffinity(device, kWords, words));
  CHECK(words[0] != 0 && count_bits(words) <= sysconf(_SC_NPROCESSORS_ONLN));
  OK(nvmlDeviceGetCpuAffinityWithinScope(device, kWords, scoped, NVML_AFFINITY_SCOPE_NODE));
  CHECK(memcmp(words, scoped, sizeof words) == 0);
  memset(nodes, 0xff, sizeof nodes);
  OK(nvmlDeviceGetMemoryAffinity(device, kWords, nodes, NVML_AFFINITY_SCOPE_SOCKET));
  CHECK(count_bits(nodes) >= 1);
  EXPECT(nvmlDeviceGetCpuAffinity(device, 0, words), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT(nvmlDeviceGetCpuAffinity(device, kWords, NULL), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT(nvmlDeviceGetCpuAffinity(NULL, kWords, words), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT(nvmlDeviceGetCpuAffinityWithinScope(device, kWords, words, 2), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT(nvmlDeviceGetMemoryAffinity(device, kWords, nodes, 2), NVML_ERROR_INVALID_ARGUMENT);
#ifdef PHANTORA_MODEL
  CHECK(count_bits(words) == sysconf(_SC_NPROCESSORS_ONLN));
#endif
  check_binding(device, words);
  return differences;
}
