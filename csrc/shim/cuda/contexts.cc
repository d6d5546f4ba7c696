// Contexts. A thread's current context and the runtime's current device are one fact: the device of the thread.
//
// A context made by cuCtxCreate has a handle of its own but shares its device's memory and streams with the
// primary one: programs that keep work apart by contexts are not modelled.
#include <array>
#include <vector>

#include "shim/calls/device_reset.h"
#include "shim/core/addresses.h"
#include "shim/core/handles.h"
#include "shim/cuda/driver.h"

using namespace ph;
using namespace ph::driver;

namespace {

struct Context {
  int device = 0;
  bool primary = false;
};

constinit HandleTable<Context> contexts(HandleTag::Context);
std::array<std::atomic<int>, kMaxDevices> retained;  // of primary contexts, through this library
std::array<std::atomic<unsigned>, kMaxDevices> primary_flags;

thread_local CUcontext top = nullptr;
thread_local std::vector<CUcontext> below;

const Context* find(CUcontext handle) noexcept { return contexts.get(handle); }

bool make_current(CUcontext handle) noexcept {
  const Context* context = find(handle);
  if (handle && !context) return false;
  if (context) set_current_device(context->device);
  top = handle;
  return true;
}

CUresult release_primary(CUdevice device) noexcept {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (retained[device].fetch_sub(1) > 0) return CUDA_SUCCESS;
  retained[device].fetch_add(1);
  return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult reset_primary(CUdevice device) noexcept {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  PH_CHECK_CAPTURE(check_unsafe_call());
  calls::reset_device(device);
  return CUDA_SUCCESS;
}

CUresult set_primary_flags(CUdevice device, unsigned flags) noexcept {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  primary_flags[device] = flags;
  return CUDA_SUCCESS;
}

}  // namespace

namespace ph::driver {

CUcontext primary_context(int device) noexcept {
  static const auto primaries = [] {
    std::array<CUcontext, kMaxDevices> made{};
    for (int i = 0; i < kMaxDevices; ++i) made[i] = static_cast<CUcontext>(contexts.create({i, true}));
    return made;
  }();
  return primaries[device];
}

CUcontext current_context() noexcept {
  const Context* context = find(top);
  if (context && context->device == current_device()) return top;
  return has_context(current_device()) ? primary_context(current_device()) : nullptr;
}

}  // namespace ph::driver

extern "C" {

PH_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) noexcept {
  PH_CALL(cuDevicePrimaryCtxRetain, HostCost::Setup);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  choose_context(device);
  retained[device].fetch_add(1);
  *context = primary_context(device);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) noexcept {
  PH_CALL(cuDevicePrimaryCtxRelease_v2, HostCost::Setup);
  return release_primary(device);
}

PH_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) noexcept {
  PH_CALL(cuDevicePrimaryCtxReset_v2, HostCost::Setup);
  return reset_primary(device);
}

PH_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) noexcept {
  PH_CALL(cuDevicePrimaryCtxSetFlags_v2);
  return set_primary_flags(device, flags);
}

PH_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) noexcept {
  PH_CALL(cuDevicePrimaryCtxGetState);
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = primary_flags[device];
  *active = has_context(device);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) noexcept {
  PH_CALL(cuCtxCreate_v4, HostCost::Setup);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  ensure_context(device);
  *context = static_cast<CUcontext>(contexts.create({device, false}));
  if (!*context) return CUDA_ERROR_OUT_OF_MEMORY;
  below.push_back(current_context());
  make_current(*context);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) noexcept {
  PH_CALL(cuCtxDestroy_v2, HostCost::Setup);
  const Context* found = find(context);
  if (!found || found->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (top == context) top = nullptr;
  contexts.destroy(context);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) noexcept {
  PH_CALL(cuCtxPushCurrent_v2);
  if (!find(context)) return CUDA_ERROR_INVALID_CONTEXT;
  below.push_back(current_context());
  make_current(context);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* context) noexcept {
  PH_CALL(cuCtxPopCurrent_v2);
  const CUcontext popped = current_context();
  if (!popped) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = popped;
  const CUcontext next = below.empty() ? nullptr : below.back();
  if (!below.empty()) below.pop_back();
  make_current(next);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxSetCurrent(CUcontext context) noexcept {
  PH_CALL(cuCtxSetCurrent);
  return make_current(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

PH_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) noexcept {
  PH_CALL(cuCtxGetCurrent);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = current_context();
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxGetDevice(CUdevice* device) noexcept {
  PH_CALL(cuCtxGetDevice);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current_device();
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long* id) noexcept {
  PH_CALL(cuCtxGetId);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  if (!context) context = current_context();
  if (!find(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *id = reinterpret_cast<unsigned long long>(context);  // a handle is never reused
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) noexcept {
  PH_CALL(cuCtxGetApiVersion);
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  if (context && !find(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxGetFlags(unsigned* flags) noexcept {
  PH_CALL(cuCtxGetFlags);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  *flags = primary_flags[current_device()];
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) noexcept {
  PH_CALL(cuCtxGetStreamPriorityRange);
  if (least) *least = 0;
  if (greatest) *greatest = -5;  // as deviceQuery prints for compute capability 7.0 and later
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) noexcept {
  PH_CALL(cuCtxEnablePeerAccess);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = find(peer);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return context->device == current_device() ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_SUCCESS;
}

}  // extern "C"
