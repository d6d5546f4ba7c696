/* covers: cudaGetDeviceCount cudaGetDevice cudaSetDevice cudaInitDevice cudaGetDeviceProperties
   cudaDeviceGetAttribute cudaDeviceGetPCIBusId cudaDeviceCanAccessPeer cudaDeviceEnablePeerAccess
   cudaDeviceDisablePeerAccess
   cudaDriverGetVersion cudaRuntimeGetVersion cudaGetDriverEntryPointByVersion cudaGetDriverEntryPoint
   cudaGetErrorName cudaGetErrorString */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <string.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

// CUDA 13 has the call for programs that were built with CUDA 12.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void* read_device(void* device) {
  OK(cudaGetDevice(device));
  return NULL;
}

static void check_selection(int count) {
  int device = -1, elsewhere = -1;
  pthread_t thread;
  OK(cudaGetDevice(&device));
  CHECK(device == 0);
  OK(cudaInitDevice(0, 0, 0));
  OK(cudaSetDevice(count - 1));
  OK(cudaGetDevice(&device));
  CHECK(device == count - 1);
  CHECK(pthread_create(&thread, NULL, read_device, &elsewhere) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(elsewhere == 0); /* every thread has its own */
  EXPECT(cudaSetDevice(count), cudaErrorInvalidDevice);
  EXPECT(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT(cudaInitDevice(count, 0, 0), cudaErrorInvalidDevice);
  EXPECT(cudaGetDevice(NULL), cudaErrorInvalidValue);
  OK(cudaGetDevice(&device));
  CHECK(device == count - 1);
  OK(cudaSetDevice(0));
}

/* The properties and the attributes of a device are two views of one thing. */
static void check_attributes(const struct cudaDeviceProp* of) {
  const struct {
    enum cudaDeviceAttr attribute;
    long long property;
  } pairs[] = {
      {cudaDevAttrMaxThreadsPerBlock, of->maxThreadsPerBlock},
      {cudaDevAttrMaxBlockDimX, of->maxThreadsDim[0]},
      {cudaDevAttrMaxBlockDimY, of->maxThreadsDim[1]},
      {cudaDevAttrMaxBlockDimZ, of->maxThreadsDim[2]},
      {cudaDevAttrMaxGridDimX, of->maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, of->maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, of->maxGridSize[2]},
      {cudaDevAttrMaxSharedMemoryPerBlock, (long long)of->sharedMemPerBlock},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, (long long)of->sharedMemPerBlockOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (long long)of->sharedMemPerMultiprocessor},
      {cudaDevAttrReservedSharedMemoryPerBlock, (long long)of->reservedSharedMemPerBlock},
      {cudaDevAttrTotalConstantMemory, (long long)of->totalConstMem},
      {cudaDevAttrWarpSize, of->warpSize},
      {cudaDevAttrMaxRegistersPerBlock, of->regsPerBlock},
      {cudaDevAttrMaxRegistersPerMultiprocessor, of->regsPerMultiprocessor},
      {cudaDevAttrMultiProcessorCount, of->multiProcessorCount},
      {cudaDevAttrMaxThreadsPerMultiProcessor, of->maxThreadsPerMultiProcessor},
      {cudaDevAttrMaxBlocksPerMultiprocessor, of->maxBlocksPerMultiProcessor},
      {cudaDevAttrComputeCapabilityMajor, of->major},
      {cudaDevAttrComputeCapabilityMinor, of->minor},
      {cudaDevAttrL2CacheSize, of->l2CacheSize},
      {cudaDevAttrGlobalMemoryBusWidth, of->memoryBusWidth},
      {cudaDevAttrPciBusId, of->pciBusID},
      {cudaDevAttrAsyncEngineCount, of->asyncEngineCount},
      {cudaDevAttrConcurrentKernels, of->concurrentKernels},
      {cudaDevAttrUnifiedAddressing, of->unifiedAddressing},
      {cudaDevAttrCooperativeLaunch, of->cooperativeLaunch},
      {cudaDevAttrMemoryPoolsSupported, of->memoryPoolsSupported},
  };
  int value;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
    OK(cudaDeviceGetAttribute(&value, pairs[i].attribute, 0));
    if (value != pairs[i].property) {
      fprintf(stderr, "attribute %d is %d, its property %lld\n", pairs[i].attribute, value, pairs[i].property);
      exit(1);
    }
  }
  EXPECT(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)100000, 0), cudaErrorInvalidValue);
  EXPECT(cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0), cudaErrorInvalidValue);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, -1), cudaErrorInvalidDevice);
}

static void check_properties(int count) {
  struct cudaDeviceProp of;
  size_t available, total;
  char bus[32];
  unsigned domain, number;
  OK(cudaGetDeviceProperties(&of, 0));
  OK(cudaMemGetInfo(&available, &total));
  CHECK(strlen(of.name) > 0 && of.warpSize == 32 && of.totalGlobalMem == total);
  check_attributes(&of);
  OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  CHECK(sscanf(bus, "%x:%x:", &domain, &number) == 2 && (int)number == of.pciBusID);
  EXPECT(cudaDeviceGetPCIBusId(bus, 5, 0), cudaErrorInvalidValue);
  EXPECT(cudaDeviceGetPCIBusId(bus, sizeof bus, count), cudaErrorInvalidDevice);
  EXPECT(cudaGetDeviceProperties(&of, count), cudaErrorInvalidDevice);
  EXPECT(cudaGetDeviceProperties(NULL, 0), cudaErrorInvalidValue);
#ifdef PHANTORA_MODEL
  /* An H100 with 80 GB. Source: NVIDIA H100 architecture white paper. */
  CHECK(strcmp(of.name, "NVIDIA H100 80GB HBM3") == 0 && of.major == 9 && of.minor == 0);
  CHECK(of.multiProcessorCount == 132 && of.maxThreadsPerMultiProcessor == 2048);
  CHECK(of.sharedMemPerMultiprocessor == 228 << 10 && of.sharedMemPerBlockOptin == 227 << 10);
  CHECK(of.l2CacheSize == 50 << 20 && of.regsPerMultiprocessor == 64 << 10);
#endif
}

static void* enable_again(void* peer) {
  EXPECT(cudaDeviceEnablePeerAccess(*(int*)peer, 0), cudaErrorPeerAccessAlreadyEnabled);
  return NULL;
}

static void check_peers(int count) {
  int can = 1, peer = 1;
  pthread_t thread;
  OK(cudaDeviceCanAccessPeer(&can, 0, 0));
  CHECK(can == 0);
  EXPECT(cudaDeviceCanAccessPeer(&can, 0, count), cudaErrorInvalidDevice);
  EXPECT(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported); /* itself */
  EXPECT(cudaDeviceEnablePeerAccess(count, 0), cudaErrorInvalidDevice);
  EXPECT(cudaDeviceDisablePeerAccess(count), cudaErrorInvalidDevice);
  if (count < 2) return;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (!can) return;
  EXPECT(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  CHECK(pthread_create(&thread, NULL, enable_again, &peer) == 0 && pthread_join(thread, NULL) == 0);
  OK(cudaDeviceDisablePeerAccess(1));
  EXPECT(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  OK(cudaSetDevice(1));
  OK(cudaDeviceEnablePeerAccess(0, 0)); /* the other direction is another matter */
  OK(cudaSetDevice(0));
}

static void check_versions(void) {
  int driver = 0, runtime = 0;
  void* function = NULL;
  enum cudaDriverEntryPointQueryResult found;
  OK(cudaDriverGetVersion(&driver));
  OK(cudaRuntimeGetVersion(&runtime));
  CHECK(driver / 1000 >= 13 && runtime / 1000 == 13);
  EXPECT(cudaDriverGetVersion(NULL), cudaErrorInvalidValue);
  OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, cudaEnableDefault, &found));
  CHECK(function != NULL && found == cudaDriverEntryPointSuccess);
  OK(cudaGetDriverEntryPointByVersion("cuNoSuchCall", &function, 13000, cudaEnableDefault, &found));
  CHECK(function == NULL && found == cudaDriverEntryPointSymbolNotFound);
  OK(cudaGetDriverEntryPoint("cuMemAlloc", &function, cudaEnableDefault, &found));
  CHECK(function != NULL && found == cudaDriverEntryPointSuccess);
}

static void check_error_texts(void) {
  CHECK(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
  CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
  CHECK(strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0);
  CHECK(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
  CHECK(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
  CHECK(strcmp(cudaGetErrorName((cudaError_t)123456), "unrecognized error code") == 0);
}

int main(void) {
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  CHECK(count >= 1);
  EXPECT(cudaGetDeviceCount(NULL), cudaErrorInvalidValue);
  check_selection(count);
  check_properties(count);
  check_peers(count);
  check_versions();
  check_error_texts();
  return differences;
}
