// Streams and events: the runtime's own objects under the driver's names.
#include <algorithm>

#include "shim/core/copies.h"
#include "shim/core/rank.h"
#include "shim/core/work.h"
#include "shim/cuda/driver.h"

using namespace ph;
using namespace ph::driver;

namespace {

constexpr int kGreatestPriority = -5;  // others are clamped, as the driver does

CUresult create(CUstream* stream, unsigned flags, int priority) noexcept {
  if (!stream || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) return CUDA_ERROR_INVALID_VALUE;
  ensure_context(current_device());
  *stream = static_cast<CUstream>(create_stream(current_device(), (flags & CU_STREAM_NON_BLOCKING) != 0,
                                                std::clamp(priority, kGreatestPriority, 0)));
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult record(CUevent event, CUstream handle) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  return record_event(event, stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult enqueue_host_function(CUstream handle, CUhostFn function, void* data) noexcept {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  PH_RESOLVE_STREAM(stream, handle);
  launch_host_function(stream, [function, data] { function(data); });
  return CUDA_SUCCESS;
}

CUresult elapsed(float* milliseconds, CUevent start, CUevent end) noexcept {
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  const EventRef first = resolve_event(start);
  const EventRef second = resolve_event(end);
  if (!first.valid || !second.valid || !first.timing || !second.timing || first.instance == 0 || second.instance == 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  PH_CHECK_CAPTURE(first.captured || second.captured ? CaptureError::CapturedEvent : CaptureError::None);
  Record question{};
  question.id = static_cast<std::uint32_t>(WaitKind::Elapsed);
  question.arg[0] = first.instance;
  question.arg[1] = second.instance;
  std::uint64_t elapsed_ns = 0;
  if (wait(question, &elapsed_ns) == ReplyStatus::NotReady) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(elapsed_ns)) / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuCtxSynchronize() noexcept {
  PH_CALL(cuCtxSynchronize, HostCost::Sync);
  if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  PH_CHECK_CAPTURE(check_unsafe_call());
  wait_device(current_device());
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) noexcept {
  PH_CALL(cuStreamCreate, HostCost::Setup);
  return create(stream, flags, 0);
}

PH_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) noexcept {
  PH_CALL(cuStreamCreateWithPriority, HostCost::Setup);
  return create(stream, flags, priority);
}

PH_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) noexcept {
  PH_CALL(cuStreamDestroy_v2, HostCost::Setup);
  return destroy_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

PH_EXPORT CUresult cuStreamSynchronize(CUstream handle) noexcept {
  PH_CALL(cuStreamSynchronize, HostCost::Sync);
  PH_FIND_STREAM(stream, handle);
  PH_CHECK_CAPTURE(check_stream_wait(stream));
  wait_stream(stream);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamQuery(CUstream handle) noexcept {
  PH_CALL(cuStreamQuery, HostCost::None);
  PH_FIND_STREAM(stream, handle);
  PH_CHECK_CAPTURE(check_stream_wait(stream));
  return query_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

PH_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) noexcept {
  PH_CALL(cuStreamWaitEvent, HostCost::None);
  PH_RESOLVE_STREAM(stream, handle);
  const EventRef reference = resolve_event(event);
  if (!reference.valid) return CUDA_ERROR_INVALID_HANDLE;
  bool is_captured = false;
  PH_CHECK_CAPTURE(capture_wait(stream, reference, is_captured));
  if (!is_captured) stream_wait_event(stream, reference);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamGetPriority(CUstream handle, int* priority) noexcept {
  PH_CALL(cuStreamGetPriority);
  PH_FIND_STREAM(stream, handle);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream.priority;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) noexcept {
  PH_CALL(cuStreamGetFlags);
  PH_FIND_STREAM(stream, handle);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream.non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) noexcept {
  PH_CALL(cuStreamGetDevice);
  PH_FIND_STREAM(stream, handle);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = stream.device;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long* id) noexcept {
  PH_CALL(cuStreamGetId);
  PH_FIND_STREAM(stream, handle);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = static_cast<unsigned long long>(stream.device) << 32 | stream.id;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) noexcept {
  PH_CALL(cuStreamGetCtx);
  PH_FIND_STREAM(stream, handle);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = primary_context(stream.device);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned) noexcept {
  PH_CALL(cuStreamAddCallback, HostCost::Launch);
  if (!callback) return CUDA_ERROR_INVALID_VALUE;
  PH_RESOLVE_STREAM(stream, handle);
  launch_host_function(stream, [callback, handle, data] { callback(handle, CUDA_SUCCESS, data); });
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) noexcept {
  PH_CALL(cuLaunchHostFunc, HostCost::Launch);
  return enqueue_host_function(stream, function, data);
}

PH_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) noexcept {
  PH_CALL(cuEventCreate, HostCost::None);
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  ensure_context(current_device());
  *event = static_cast<CUevent>(create_event((flags & CU_EVENT_DISABLE_TIMING) == 0));
  return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

PH_EXPORT CUresult cuEventDestroy_v2(CUevent event) noexcept {
  PH_CALL(cuEventDestroy_v2, HostCost::None);
  return destroy_event(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

PH_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) noexcept {
  PH_CALL(cuEventRecord, HostCost::Event);
  return record(event, stream);
}

PH_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) noexcept {
  PH_CALL(cuEventRecordWithFlags, HostCost::Event);
  return record(event, stream);
}

PH_EXPORT CUresult cuEventQuery(CUevent event) noexcept {
  PH_CALL(cuEventQuery, HostCost::None);
  const EventRef reference = resolve_event(event);
  if (!reference.valid) return CUDA_ERROR_INVALID_HANDLE;
  PH_CHECK_CAPTURE(check_event_wait(reference));
  return query_event(reference) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

PH_EXPORT CUresult cuEventSynchronize(CUevent event) noexcept {
  PH_CALL(cuEventSynchronize, HostCost::Sync);
  const EventRef reference = resolve_event(event);
  if (!reference.valid) return CUDA_ERROR_INVALID_HANDLE;
  PH_CHECK_CAPTURE(check_event_wait(reference));
  wait_event(reference);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) noexcept {
  PH_CALL(cuEventElapsedTime_v2, HostCost::Sync);
  return elapsed(milliseconds, start, end);
}

// The unversioned form, for programs that look it up by name; cuda.h maps the name to the other.
#undef cuEventElapsedTime
PH_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) noexcept {
  PH_CALL(cuEventElapsedTime, HostCost::Sync);
  return elapsed(milliseconds, start, end);
}

}  // extern "C"
