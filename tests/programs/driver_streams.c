/* covers: cuStreamCreateWithPriority cuStreamGetPriority cuStreamGetFlags cuStreamGetDevice cuStreamGetId
   cuStreamGetCtx cuStreamAddCallback cuLaunchHostFunc cuEventRecordWithFlags cuEventElapsedTime
   cuEventElapsedTime_v2 */
#include <cuda.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

/* The unversioned form, which cuda.h hides behind a macro. */
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float*, CUevent, CUevent);

static void append(void* data) {
  int* seen = data;
  seen[++seen[0]] = 1;
}

static void append_status(CUstream stream, CUresult status, void* data) {
  int* seen = data;
  (void)stream;
  seen[++seen[0]] = status == CUDA_SUCCESS ? 2 : -1;
}

static void check_facts(CUcontext context) {
  CUstream first, second;
  CUcontext seen;
  CUdevice device = -1;
  unsigned flags = 9;
  int least, greatest, priority = 9;
  unsigned long long one = 0, other = 0;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  OK(cuStreamCreateWithPriority(&first, CU_STREAM_NON_BLOCKING, greatest));
  OK(cuStreamCreateWithPriority(&second, CU_STREAM_DEFAULT, 100)); /* clamped */
  OK(cuStreamGetPriority(first, &priority));
  CHECK(priority == greatest);
  OK(cuStreamGetPriority(second, &priority));
  CHECK(priority == least);
  OK(cuStreamGetFlags(first, &flags));
  CHECK(flags == CU_STREAM_NON_BLOCKING);
  OK(cuStreamGetDevice(first, &device));
  CHECK(device == 0);
  OK(cuStreamGetCtx(first, &seen));
  CHECK(seen == context);
  OK(cuStreamGetId(first, &one));
  OK(cuStreamGetId(second, &other));
  CHECK(one != other);
  EXPECT(cuStreamCreateWithPriority(&first, 0x80, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamDestroy(first));
  OK(cuStreamDestroy(second));
}

static void check_time(CUstream stream) {
  CUevent start, end, untimed;
  float milliseconds = -1;
  OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  OK(cuEventRecordWithFlags(start, stream, CU_EVENT_RECORD_DEFAULT));
  EXPECT(cuEventElapsedTime_v2(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE); /* not recorded */
  OK(cuEventRecord(end, stream));
  OK(cuEventRecord(untimed, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 0);
  OK(cuEventElapsedTime_v2(&milliseconds, start, end));
  CHECK(milliseconds >= 0);
  EXPECT(cuEventElapsedTime_v2(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventDestroy(start));
  OK(cuEventDestroy(end));
  OK(cuEventDestroy(untimed));
}

static void check_host_functions(CUstream stream) {
  int seen[3] = {0};
  OK(cuLaunchHostFunc(stream, append, seen));
  OK(cuStreamAddCallback(stream, append_status, seen, 0));
  OK(cuStreamSynchronize(stream));
  CHECK(seen[0] == 2 && seen[1] == 1 && seen[2] == 2);
  EXPECT(cuLaunchHostFunc(stream, NULL, seen), CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
  CUcontext context;
  CUstream stream;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  check_facts(context);
  check_time(stream);
  check_host_functions(stream);
  check_host_functions(NULL);
  OK(cuStreamDestroy(stream));
#ifdef PHANTORA_MODEL
  EXPECT(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
#endif
  return differences;
}
