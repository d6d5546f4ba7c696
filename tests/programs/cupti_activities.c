/* covers: cuptiActivityRegisterCallbacks cuptiActivityRegisterTimestampCallback cuptiActivityEnable cuptiActivityDisable
   cuptiActivityEnableRuntimeApi cuptiActivityEnableDriverApi cuptiActivityFlushAll cuptiActivityGetNextRecord
   cuptiActivityGetNumDroppedRecords cuptiActivityPushExternalCorrelationId cuptiActivityPopExternalCorrelationId
   cuptiSubscribe cuptiUnsubscribe cuptiEnableCallback cuptiEnableDomain cuptiGetCallbackName cuptiGetResultString
   cuptiGetTimestamp cuptiGetVersion cuptiFinalize */
/* What a profiler does that is built like Kineto. CUPTI's header comes in a wheel of its own: what is needed of it is
   declared here. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)
#define FINE(call) REQUIRE(call, 0)

enum { MEMCPY = 1, MEMSET = 2, RUNTIME = 5, SYNCHRONIZATION = 38, EXTERNAL = 39, KINDS = 64 };
enum { INVALID_PARAMETER = 1, MAX_LIMIT_REACHED = 12, QUEUE_EMPTY = 18, MULTIPLE_SUBSCRIBERS = 39 };
enum { DRIVER_DOMAIN = 1, RUNTIME_DOMAIN = 2, RESOURCE_DOMAIN = 3, CONTEXT_CREATED = 1 };
enum { CUDA_MEMCPY_ASYNC = 41, CUDA_GET_DEVICE = 17, CUSTOM0 = 3, FLUSH_FORCED = 1 };

typedef void (*Request)(uint8_t** buffer, size_t* size, size_t* most_records);
typedef void (*Complete)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
extern int cuptiActivityRegisterCallbacks(Request request, Complete complete);
extern int cuptiActivityRegisterTimestampCallback(uint64_t (*read)(void));
extern int cuptiActivityEnable(int kind), cuptiActivityDisable(int kind);
extern int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on),
    cuptiActivityEnableDriverApi(uint32_t id, uint8_t on);
extern int cuptiActivityFlushAll(uint32_t flags);
extern int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record);
extern int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* dropped);
extern int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id);
extern int cuptiActivityPopExternalCorrelationId(int kind, uint64_t* id);
extern int cuptiSubscribe(void** subscriber, void (*callback)(void*, int, uint32_t, const void*), void* data);
extern int cuptiUnsubscribe(void* subscriber);
extern int cuptiEnableCallback(uint32_t on, void* subscriber, int domain, uint32_t id);
extern int cuptiEnableDomain(uint32_t on, void* subscriber, int domain);
extern int cuptiGetCallbackName(int domain, uint32_t id, const char** name);
extern int cuptiGetResultString(int result, const char** text);
extern int cuptiGetTimestamp(uint64_t* time);
extern int cuptiGetVersion(uint32_t* version);
extern int cuptiFinalize(void);

/* The beginnings of the records that are looked at. */
typedef struct {
  int kind;
  uint32_t id;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
} Call;
typedef struct {
  int kind;
  uint8_t copy_kind, from, to, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
} Copy;
typedef struct {
  int kind, external_kind;
  uint64_t number;
  uint32_t correlation, reserved;
} External;

static uint8_t buffer[1 << 16];
static int buffers_out, records[KINDS];
static uint32_t call_of_copy, copy_issued_in, external_of;
static uint64_t copy_start, copy_end, call_start, call_end;

static void request(uint8_t** place, size_t* size, size_t* most_records) {
  CHECK(buffers_out++ == 0);
  *place = buffer;
  *size = sizeof buffer;
  *most_records = 0;
}

static void look_at(const void* record) {
  const int kind = *(const int*)record;
  CHECK(kind > 0 && kind < KINDS);
  ++records[kind];
  if (kind == RUNTIME && ((const Call*)record)->id == CUDA_MEMCPY_ASYNC) {
    call_of_copy = ((const Call*)record)->correlation;
    call_start = ((const Call*)record)->start;
    call_end = ((const Call*)record)->end;
  }
  if (kind == RUNTIME) CHECK(((const Call*)record)->id != CUDA_GET_DEVICE);
  if (kind == MEMCPY) {
    const Copy* copy = record;
    CHECK(copy->copy_kind == 1 && copy->from == 1 && copy->to == 3 && copy->bytes == 4096);
    copy_issued_in = copy->correlation;
    copy_start = copy->start;
    copy_end = copy->end;
  }
  if (kind == EXTERNAL) {
    CHECK(((const External*)record)->external_kind == CUSTOM0);
    if (((const External*)record)->number == 77) external_of = ((const External*)record)->correlation;
  }
}

static void complete(void* context, uint32_t stream, uint8_t* place, size_t size, size_t valid) {
  void* record = NULL;
  (void)context, (void)stream;
  CHECK(place == buffer && size == sizeof buffer && valid <= size);
  CHECK(--buffers_out == 0);
  while (cuptiActivityGetNextRecord(place, valid, &record) == 0) look_at(record);
  EXPECT(cuptiActivityGetNextRecord(place, valid, &record), MAX_LIMIT_REACHED);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void callback(void* data, int domain, uint32_t id, const void* call) {
  (void)data, (void)domain, (void)id, (void)call;
}

static void check_names(void) {
  const char* name = NULL;
  uint32_t version = 0;
  FINE(cuptiGetVersion(&version));
  CHECK(version != 0);
  FINE(cuptiGetCallbackName(RUNTIME_DOMAIN, CUDA_MEMCPY_ASYNC, &name));
  CHECK(strcmp(name, "cudaMemcpyAsync_v3020") == 0);
  FINE(cuptiGetCallbackName(DRIVER_DOMAIN, 307, &name));
  CHECK(strcmp(name, "cuLaunchKernel") == 0);
  EXPECT(cuptiGetCallbackName(RUNTIME_DOMAIN, 100000, &name), INVALID_PARAMETER);
  FINE(cuptiGetResultString(MAX_LIMIT_REACHED, &name));
  CHECK(strcmp(name, "CUPTI_ERROR_MAX_LIMIT_REACHED") == 0);
}

static void check_subscribers(void) {
  void *subscriber = NULL, *other = NULL;
  FINE(cuptiSubscribe(&subscriber, callback, NULL));
  EXPECT(cuptiSubscribe(&other, callback, NULL), MULTIPLE_SUBSCRIBERS);
  FINE(cuptiEnableCallback(1, subscriber, RESOURCE_DOMAIN, CONTEXT_CREATED));
  FINE(cuptiEnableDomain(1, subscriber, RESOURCE_DOMAIN));
  FINE(cuptiEnableDomain(0, subscriber, RUNTIME_DOMAIN));
  FINE(cuptiUnsubscribe(subscriber));
  EXPECT(cuptiUnsubscribe(subscriber), 0); /* again */
}

static void check_activities(void) {
  static char host[4096];
  void* memory;
  int device;
  size_t dropped = 1;
  uint64_t number = 0, before, after;
  OK(cudaMalloc(&memory, sizeof host));
  FINE(cuptiActivityRegisterCallbacks(request, complete));
  FINE(cuptiActivityRegisterTimestampCallback(now));
  for (int kind = 0; kind < KINDS; ++kind) {
    if (kind == MEMCPY || kind == MEMSET || kind == RUNTIME || kind == SYNCHRONIZATION || kind == EXTERNAL)
      FINE(cuptiActivityEnable(kind));
  }
  FINE(cuptiActivityEnableRuntimeApi(CUDA_GET_DEVICE, 0));
  FINE(cuptiActivityEnableDriverApi(1, 0));
  FINE(cuptiActivityPushExternalCorrelationId(CUSTOM0, 5));
  FINE(cuptiActivityPushExternalCorrelationId(CUSTOM0, 77));
  FINE(cuptiGetTimestamp(&before));
  OK(cudaMemcpyAsync(memory, host, sizeof host, cudaMemcpyHostToDevice, NULL));
  FINE(cuptiGetTimestamp(&after));
  FINE(cuptiActivityPopExternalCorrelationId(CUSTOM0, &number));
  CHECK(number == 77);
  FINE(cuptiActivityPopExternalCorrelationId(CUSTOM0, &number));
  CHECK(number == 5);
  EXPECT(cuptiActivityPopExternalCorrelationId(CUSTOM0, &number), QUEUE_EMPTY);
  OK(cudaMemsetAsync(memory, 1, sizeof host, NULL));
  OK(cudaGetDevice(&device));
  OK(cudaDeviceSynchronize());
  FINE(cuptiActivityFlushAll(0));
  CHECK(records[MEMCPY] == 1 && records[MEMSET] == 1 && records[SYNCHRONIZATION] == 1 && records[RUNTIME] == 3);
  CHECK(records[EXTERNAL] == 1 && external_of == call_of_copy);
  CHECK(call_of_copy != 0 && call_of_copy == copy_issued_in);
  CHECK(before < call_start && call_start < call_end && call_end < after);
  CHECK(call_start <= copy_start && copy_start < copy_end);
  FINE(cuptiActivityDisable(MEMCPY));
  OK(cudaMemcpyAsync(memory, host, sizeof host, cudaMemcpyHostToDevice, NULL));
  OK(cudaDeviceSynchronize());
  FINE(cuptiActivityFlushAll(FLUSH_FORCED));
  CHECK(buffers_out == 0);
  FINE(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
  CHECK(dropped == 0);
  FINE(cuptiFinalize());
  OK(cudaMemsetAsync(memory, 1, sizeof host, NULL));
#ifdef PHANTORA_MODEL
  FINE(cuptiActivityFlushAll(FLUSH_FORCED)); /* the vendor's begins anew, and asks for a buffer */
  CHECK(buffers_out == 0);
#endif
  CHECK(records[MEMCPY] == 1 && records[MEMSET] == 1 && records[RUNTIME] == 5);
  OK(cudaFree(memory));
}

int main(void) {
  check_names();
  check_subscribers();
  check_activities();
  return differences;
}
