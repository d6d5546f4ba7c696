// Streams and events: the runtime's own objects under the driver's names, see calls/stream_calls.h.
#include "shim/calls/stream_calls.h"

#include "shim/cuda/driver.h"

using namespace ph;
using namespace ph::driver;

extern "C" {

PH_EXPORT CUresult cuCtxSynchronize() noexcept {
  PH_CALL(cuCtxSynchronize, HostCost::Sync);
  if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  PH_CHECK_CAPTURE(check_unsafe_call());
  return result_of("cuCtxSynchronize", calls::synchronize_device());
}

PH_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) noexcept {
  PH_CALL(cuStreamCreate, HostCost::Setup);
  return result_of("cuStreamCreate", calls::create_stream(calls::handle_place(stream), flags, 0));
}

PH_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) noexcept {
  PH_CALL(cuStreamCreateWithPriority, HostCost::Setup);
  return result_of("cuStreamCreateWithPriority", calls::create_stream(calls::handle_place(stream), flags, priority));
}

PH_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) noexcept {
  PH_CALL(cuStreamDestroy_v2, HostCost::Setup);
  return result_of("cuStreamDestroy", calls::destroy_stream(stream));
}

PH_EXPORT CUresult cuStreamSynchronize(CUstream stream) noexcept {
  PH_CALL(cuStreamSynchronize, HostCost::Sync);
  return result_of("cuStreamSynchronize", calls::synchronize_stream(stream));
}

PH_EXPORT CUresult cuStreamQuery(CUstream stream) noexcept {
  PH_CALL(cuStreamQuery, HostCost::None);
  return result_of("cuStreamQuery", calls::query_stream(stream));
}

PH_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) noexcept {
  PH_CALL(cuStreamWaitEvent, HostCost::None);
  return result_of("cuStreamWaitEvent", calls::wait_for_event(stream, event, flags));
}

PH_EXPORT CUresult cuStreamGetPriority(CUstream stream, int* priority) noexcept {
  PH_CALL(cuStreamGetPriority);
  return result_of("cuStreamGetPriority", calls::stream_priority(stream, priority));
}

PH_EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) noexcept {
  PH_CALL(cuStreamGetFlags);
  return result_of("cuStreamGetFlags", calls::stream_flags(stream, flags));
}

PH_EXPORT CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) noexcept {
  PH_CALL(cuStreamGetDevice);
  return result_of("cuStreamGetDevice", calls::stream_device(stream, device));
}

PH_EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long* id) noexcept {
  PH_CALL(cuStreamGetId);
  return result_of("cuStreamGetId", calls::stream_id(stream, id));
}

PH_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) noexcept {
  PH_CALL(cuStreamGetCtx);
  PH_FIND_STREAM(stream, handle);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = primary_context(stream.device);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data,
                                       unsigned flags) noexcept {
  PH_CALL(cuStreamAddCallback, HostCost::Launch);
  if (!callback || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return result_of("cuStreamAddCallback", calls::add_host_function(stream, [callback, stream, data] {
                     callback(stream, CUDA_SUCCESS, data);
                   }));
}

PH_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) noexcept {
  PH_CALL(cuLaunchHostFunc, HostCost::Launch);
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return result_of("cuLaunchHostFunc", calls::add_host_function(stream, [function, data] { function(data); }));
}

PH_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) noexcept {
  PH_CALL(cuEventCreate, HostCost::None);
  return result_of("cuEventCreate", calls::create_event(calls::handle_place(event), flags));
}

PH_EXPORT CUresult cuEventDestroy_v2(CUevent event) noexcept {
  PH_CALL(cuEventDestroy_v2, HostCost::None);
  return result_of("cuEventDestroy", calls::destroy_event(event));
}

PH_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) noexcept {
  PH_CALL(cuEventRecord, HostCost::Event);
  return result_of("cuEventRecord", calls::record_event(event, stream, CU_EVENT_RECORD_DEFAULT));
}

PH_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) noexcept {
  PH_CALL(cuEventRecordWithFlags, HostCost::Event);
  return result_of("cuEventRecordWithFlags", calls::record_event(event, stream, flags));
}

PH_EXPORT CUresult cuEventQuery(CUevent event) noexcept {
  PH_CALL(cuEventQuery, HostCost::None);
  return result_of("cuEventQuery", calls::query_event(event));
}

PH_EXPORT CUresult cuEventSynchronize(CUevent event) noexcept {
  PH_CALL(cuEventSynchronize, HostCost::Sync);
  return result_of("cuEventSynchronize", calls::synchronize_event(event));
}

PH_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) noexcept {
  PH_CALL(cuEventElapsedTime_v2, HostCost::Sync);
  return result_of("cuEventElapsedTime", calls::elapsed_time(milliseconds, start, end));
}

// The unversioned form, for programs that look it up by name; cuda.h maps the name to the other.
#undef cuEventElapsedTime
PH_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) noexcept {
  PH_CALL(cuEventElapsedTime, HostCost::Sync);
  return result_of("cuEventElapsedTime", calls::elapsed_time(milliseconds, start, end));
}

}  // extern "C"
