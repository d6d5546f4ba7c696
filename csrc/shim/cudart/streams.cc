// Streams and events: see calls/stream_calls.h.
#include "shim/calls/stream_calls.h"

#include "shim/cudart/cudart.h"

using namespace ph;
using namespace ph::cudart;

extern "C" {

PH_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) noexcept {
  PH_CALL(cudaStreamCreate, HostCost::Setup);
  return returned("cudaStreamCreate", calls::create_stream(calls::handle_place(stream), cudaStreamDefault, 0));
}

PH_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) noexcept {
  PH_CALL(cudaStreamCreateWithFlags, HostCost::Setup);
  return returned("cudaStreamCreateWithFlags", calls::create_stream(calls::handle_place(stream), flags, 0));
}

PH_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) noexcept {
  PH_CALL(cudaStreamCreateWithPriority, HostCost::Setup);
  return returned("cudaStreamCreateWithPriority", calls::create_stream(calls::handle_place(stream), flags, priority));
}

PH_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) noexcept {
  PH_CALL(cudaStreamDestroy, HostCost::Setup);
  return returned("cudaStreamDestroy", calls::destroy_stream(stream));
}

PH_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) noexcept {
  PH_CALL(cudaStreamSynchronize, HostCost::Sync);
  return returned("cudaStreamSynchronize", calls::synchronize_stream(stream));
}

PH_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) noexcept {
  PH_CALL(cudaStreamQuery, HostCost::None);
  return returned("cudaStreamQuery", calls::query_stream(stream));
}

PH_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) noexcept {
  PH_CALL(cudaStreamWaitEvent, HostCost::None);
  return returned("cudaStreamWaitEvent", calls::wait_for_event(stream, event, flags));
}

PH_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) noexcept {
  PH_CALL(cudaStreamGetPriority);
  return returned("cudaStreamGetPriority", calls::stream_priority(stream, priority));
}

PH_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) noexcept {
  PH_CALL(cudaStreamGetFlags);
  return returned("cudaStreamGetFlags", calls::stream_flags(stream, flags));
}

PH_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) noexcept {
  PH_CALL(cudaStreamGetId);
  return returned("cudaStreamGetId", calls::stream_id(stream, id));
}

PH_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) noexcept {
  PH_CALL(cudaStreamGetDevice);
  return returned("cudaStreamGetDevice", calls::stream_device(stream, device));
}

PH_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                            unsigned flags) noexcept {
  PH_CALL(cudaStreamAddCallback, HostCost::Launch);
  if (callback == nullptr || flags != 0) return returned("cudaStreamAddCallback", calls::Status::InvalidValue);
  return returned("cudaStreamAddCallback",
                  calls::add_host_function(stream, [callback, stream, data] { callback(stream, cudaSuccess, data); }));
}

PH_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) noexcept {
  PH_CALL(cudaEventCreateWithFlags, HostCost::None);
  return returned("cudaEventCreateWithFlags", calls::create_event(calls::handle_place(event), flags));
}

PH_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) noexcept {
  PH_CALL(cudaEventCreate, HostCost::None);
  return returned("cudaEventCreate", calls::create_event(calls::handle_place(event), cudaEventDefault));
}

PH_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) noexcept {
  PH_CALL(cudaEventDestroy, HostCost::None);
  return returned("cudaEventDestroy", calls::destroy_event(event));
}

PH_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) noexcept {
  PH_CALL(cudaEventRecord, HostCost::Event);
  return returned("cudaEventRecord", calls::record_event(event, stream, cudaEventRecordDefault));
}

PH_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) noexcept {
  PH_CALL(cudaEventRecordWithFlags, HostCost::Event);
  return returned("cudaEventRecordWithFlags", calls::record_event(event, stream, flags));
}

PH_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) noexcept {
  PH_CALL(cudaEventQuery, HostCost::None);
  return returned("cudaEventQuery", calls::query_event(event));
}

PH_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) noexcept {
  PH_CALL(cudaEventSynchronize, HostCost::Sync);
  return returned("cudaEventSynchronize", calls::synchronize_event(event));
}

PH_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) noexcept {
  PH_CALL(cudaEventElapsedTime, HostCost::Sync);
  return returned("cudaEventElapsedTime", calls::elapsed_time(milliseconds, start, end));
}

}  // extern "C"
