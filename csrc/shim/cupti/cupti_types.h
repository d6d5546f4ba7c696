// The part of CUPTI's interface that we implement, declared by us; see cublas_types.h for why these facts are.
//
// A record of an older version is the beginning of the newer one (kernels: of CUDA 12 the first 208 bytes), and programs
// step from record to record with cuptiActivityGetNextRecord: the layouts of CUDA 13.2 serve all.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef PH_VENDOR_HEADERS
#include <cupti.h>
#else

typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUpti_Subscriber_st* CUpti_SubscriberHandle;
typedef std::uint32_t CUpti_CallbackId;

typedef enum {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_PARAMETER = 1,
  CUPTI_ERROR_INVALID_CONTEXT = 3,
  CUPTI_ERROR_INVALID_OPERATION = 7,
  CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT = 10,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_QUEUE_EMPTY = 18,
  CUPTI_ERROR_INVALID_KIND = 21,
  CUPTI_ERROR_NOT_SUPPORTED = 27,
  CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
  CUPTI_ERROR_UNKNOWN = 999,
  CUPTI_ERROR_FORCE_INT = 0x7fffffff,
} CUptiResult;

typedef enum {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_KERNEL = 3,
  CUPTI_ACTIVITY_KIND_DRIVER = 4,
  CUPTI_ACTIVITY_KIND_RUNTIME = 5,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
  CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
  CUPTI_ACTIVITY_KIND_CUDA_EVENT = 36,
  CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38,
  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39,
  CUPTI_ACTIVITY_KIND_FORCE_INT = 0x7fffffff,
} CUpti_ActivityKind;

typedef enum {
  CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1,
  CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC = 1,
  CUPTI_ACTIVITY_FLAG_FORCE_INT = 0x7fffffff,
} CUpti_ActivityFlag;

typedef enum {
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOH = 9,
  CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10,
  CUPTI_ACTIVITY_MEMCPY_KIND_FORCE_INT = 0x7fffffff,
} CUpti_ActivityMemcpyKind;

typedef enum {
  CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE = 1,
  CUPTI_ACTIVITY_MEMORY_KIND_PINNED = 2,
  CUPTI_ACTIVITY_MEMORY_KIND_DEVICE = 3,
  CUPTI_ACTIVITY_MEMORY_KIND_FORCE_INT = 0x7fffffff,
} CUpti_ActivityMemoryKind;

typedef enum {
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE = 1,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT = 2,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE = 3,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE = 4,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_FORCE_INT = 0x7fffffff,
} CUpti_ActivitySynchronizationType;

typedef enum {
  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 3,
  CUPTI_EXTERNAL_CORRELATION_KIND_SIZE = 6,
  CUPTI_EXTERNAL_CORRELATION_KIND_FORCE_INT = 0x7fffffff,
} CUpti_ExternalCorrelationKind;

typedef enum {
  CUPTI_CHANNEL_TYPE_COMPUTE = 1,
  CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY = 2,
  CUPTI_CHANNEL_TYPE_FORCE_INT = 0x7fffffff,
} CUpti_ChannelType;

typedef enum {
  CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE = 0,
  CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_FORCE_INT = 0x7fffffff,
} CUpti_ActivityAttribute;

typedef enum {
  CUPTI_CB_DOMAIN_DRIVER_API = 1,
  CUPTI_CB_DOMAIN_RUNTIME_API = 2,
  CUPTI_CB_DOMAIN_RESOURCE = 3,
  CUPTI_CB_DOMAIN_FORCE_INT = 0x7fffffff,
} CUpti_CallbackDomain;

typedef struct {
  alignas(8) CUpti_ActivityKind kind;
} CUpti_Activity;

typedef struct {
  CUpti_ActivityKind kind;
  std::uint8_t cacheConfig;
  std::uint8_t sharedMemoryConfig;
  std::uint16_t registersPerThread;
  std::uint32_t partitionedGlobalCacheRequested;
  std::uint32_t partitionedGlobalCacheExecuted;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t completed;
  std::uint32_t deviceId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::int32_t gridX;
  std::int32_t gridY;
  std::int32_t gridZ;
  std::int32_t blockX;
  std::int32_t blockY;
  std::int32_t blockZ;
  std::int32_t staticSharedMemory;
  std::int32_t dynamicSharedMemory;
  std::uint32_t localMemoryPerThread;
  std::uint32_t localMemoryTotal;
  std::uint32_t correlationId;
  std::int64_t gridId;
  const char* name;
  void* reserved0;
  std::uint64_t queued;
  std::uint64_t submitted;
  std::uint8_t launchType;
  std::uint8_t isSharedMemoryCarveoutRequested;
  std::uint8_t sharedMemoryCarveoutRequested;
  std::uint8_t padding;
  std::uint32_t sharedMemoryExecuted;
  std::uint64_t graphNodeId;
  std::uint32_t shmemLimitConfig;
  std::uint32_t graphId;
  void* pAccessPolicyWindow;
  std::uint32_t channelID;
  CUpti_ChannelType channelType;
  std::uint32_t clusterX;
  std::uint32_t clusterY;
  std::uint32_t clusterZ;
  std::uint32_t clusterSchedulingPolicy;
  std::uint64_t localMemoryTotal_v2;
  std::uint32_t maxPotentialClusterSize;
  std::uint32_t maxActiveClusters;
  std::uint8_t isDeviceLaunched;
  std::uint8_t padding3[7];
  std::int32_t priority;
  std::uint32_t padding4;
} CUpti_ActivityKernel11;

typedef struct {
  CUpti_ActivityKind kind;
  std::uint8_t copyKind;
  std::uint8_t srcKind;
  std::uint8_t dstKind;
  std::uint8_t flags;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t deviceId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::uint32_t correlationId;
  std::uint32_t runtimeCorrelationId;
  std::uint32_t pad;
  void* reserved0;
  std::uint64_t graphNodeId;
  std::uint32_t graphId;
  std::uint32_t channelID;
  CUpti_ChannelType channelType;
  std::uint8_t isDeviceLaunched;
  std::uint8_t pad2[3];
  std::uint64_t copyCount;
} CUpti_ActivityMemcpy6;

typedef struct {
  CUpti_ActivityKind kind;
  std::uint8_t copyKind;
  std::uint8_t srcKind;
  std::uint8_t dstKind;
  std::uint8_t flags;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t deviceId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::uint32_t srcDeviceId;
  std::uint32_t srcContextId;
  std::uint32_t dstDeviceId;
  std::uint32_t dstContextId;
  std::uint32_t correlationId;
  void* reserved0;
  std::uint64_t graphNodeId;
  std::uint32_t graphId;
  std::uint32_t channelID;
  CUpti_ChannelType channelType;
} CUpti_ActivityMemcpyPtoP4;

typedef struct {
  CUpti_ActivityKind kind;
  std::uint32_t value;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t deviceId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::uint32_t correlationId;
  std::uint16_t flags;
  std::uint16_t memoryKind;
  std::uint32_t pad;
  void* reserved0;
  std::uint64_t graphNodeId;
  std::uint32_t graphId;
  std::uint32_t channelID;
  CUpti_ChannelType channelType;
  std::uint8_t isDeviceLaunched;
  std::uint8_t pad2[3];
} CUpti_ActivityMemset4;

typedef struct {
  CUpti_ActivityKind kind;
  CUpti_CallbackId cbid;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t processId;
  std::uint32_t threadId;
  std::uint32_t correlationId;
  std::uint32_t returnValue;
} CUpti_ActivityAPI;

typedef struct {
  CUpti_ActivityKind kind;
  CUpti_ActivitySynchronizationType type;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t correlationId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::uint32_t cudaEventId;
  std::uint64_t cudaEventSyncId;
  std::uint32_t returnValue;
  std::uint32_t pad;
} CUpti_ActivitySynchronization2;

typedef struct {
  CUpti_ActivityKind kind;
  CUpti_ExternalCorrelationKind externalKind;
  std::uint64_t externalId;
  std::uint32_t correlationId;
  std::uint32_t reserved;
} CUpti_ActivityExternalCorrelation;

typedef struct {
  CUpti_ActivityKind kind;
  std::uint32_t correlationId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::uint32_t eventId;
  std::uint32_t pad;
  std::uint32_t deviceId;
  std::uint32_t pad2;
  void* reserved0;
  std::uint64_t deviceTimestamp;
  std::uint64_t cudaEventSyncId;
} CUpti_ActivityCudaEvent2;

typedef void (*CUpti_CallbackFunc)(void* userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                                   const void* cbdata);
typedef void (*CUpti_BuffersCallbackRequestFunc)(std::uint8_t** buffer, std::size_t* size, std::size_t* maxNumRecords);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext context, std::uint32_t streamId, std::uint8_t* buffer,
                                                  std::size_t size, std::size_t validSize);
typedef std::uint64_t (*CUpti_TimestampCallbackFunc)();

#define CUPTI_SYNCHRONIZATION_INVALID_VALUE 0xffffffffu

#endif  // PH_VENDOR_HEADERS
