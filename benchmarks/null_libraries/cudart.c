/* CUDA runtime: a GPU's properties as constants, memory, handles. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "null.h"

enum { COPIED_BYTES = 64 << 10 }; /* larger copies move nothing, as in `phantora run` */
static const size_t gpu_bytes = (size_t)80 << 30;

/* A reserved range of addresses. Pages cost nothing until they are touched. */
typedef struct {
  uintptr_t begin, next;
} Range;
static Range device_memory, host_memory;

__attribute__((constructor)) static void reserve(void) {
  Range* ranges[] = {&device_memory, &host_memory};
  for (int i = 0; i < 2; ++i) {
    void* at = mmap(NULL, gpu_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ranges[i]->begin = ranges[i]->next = (uintptr_t)at;
  }
}

static cudaError_t take(Range* range, void** pointer, size_t bytes) {
  const size_t rounded = (bytes + 4095) & ~(size_t)4095;
  *pointer = (void*)__atomic_fetch_add(&range->next, rounded, __ATOMIC_RELAXED);
  return (uintptr_t)*pointer + rounded <= range->begin + gpu_bytes ? cudaSuccess : cudaErrorMemoryAllocation;
}

static int holds(const Range* range, const void* pointer) {
  return (uintptr_t)pointer >= range->begin && (uintptr_t)pointer < range->begin + gpu_bytes;
}

NULL_EXPORT cudaError_t cudaMalloc(void** pointer, size_t bytes) { return take(&device_memory, pointer, bytes); }
NULL_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return take(&host_memory, pointer, bytes);
}
NULL_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = gpu_bytes;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* pointer) {
  memset(attributes, 0, sizeof *attributes);
  if (holds(&device_memory, pointer)) attributes->type = cudaMemoryTypeDevice;
  if (holds(&host_memory, pointer)) attributes->type = cudaMemoryTypeHost;
  attributes->devicePointer = attributes->hostPointer = (void*)pointer;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                                        cudaStream_t stream) {
  (void)kind, (void)stream;
  if (bytes <= COPIED_BYTES) memmove(to, from, bytes);
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

static _Thread_local int current_device;
NULL_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = GPUS;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

/* Of an H100, as far as PyTorch asks. */
NULL_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
  *properties = (struct cudaDeviceProp){.name = "null",
                                        .totalGlobalMem = gpu_bytes,
                                        .sharedMemPerBlock = 49152,
                                        .regsPerBlock = 65536,
                                        .warpSize = 32,
                                        .maxThreadsPerBlock = 1024,
                                        .maxThreadsDim = {1024, 1024, 64},
                                        .maxGridSize = {2147483647, 65535, 65535},
                                        .totalConstMem = 65536,
                                        .major = 9,
                                        .minor = 0,
                                        .multiProcessorCount = 132,
                                        .unifiedAddressing = 1,
                                        .maxThreadsPerMultiProcessor = 2048,
                                        .sharedMemPerMultiprocessor = 233472,
                                        .regsPerMultiprocessor = 65536,
                                        .sharedMemPerBlockOptin = 232448,
                                        .l2CacheSize = 52428800,
                                        .maxBlocksPerMultiProcessor = 32,
                                        .pciBusID = device,
                                        .cooperativeLaunch = 1};
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  (void)device;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrMultiProcessorCount: *value = 132; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    default: *value = 0;
  }
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDA_VERSION_NUMBER;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDA_VERSION_NUMBER;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function) {
  (void)function;
  *attributes =
      (struct cudaFuncAttributes){.maxThreadsPerBlock = 1024, .numRegs = 32, .ptxVersion = 90, .binaryVersion = 90};
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                                      size_t shared_bytes) {
  (void)function, (void)threads, (void)shared_bytes;
  *blocks = 2;
  return cudaSuccess;
}

NULL_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  (void)flags, (void)priority;
  *stream = new_handle();
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  (void)flags;
  *event = new_handle();
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaEventElapsedTime(float* time_ms, cudaEvent_t start, cudaEvent_t end) {
  (void)start, (void)end;
  *time_ms = 1;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  (void)stream;
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
NULL_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status,
                                                 unsigned long long* id, cudaGraph_t* graph,
                                                 const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                                 size_t* count) {
  (void)stream, (void)id, (void)graph, (void)dependencies, (void)edges, (void)count;
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

NULL_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  (void)error;
  return "null";
}
NULL_EXPORT const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

/* The driver of this set is preloaded too. */
NULL_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                                         unsigned long long flags,
                                                         enum cudaDriverEntryPointQueryResult* result) {
  (void)version, (void)flags;
  *function = dlsym(RTLD_DEFAULT, symbol);
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
