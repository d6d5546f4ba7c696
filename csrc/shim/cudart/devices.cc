// Devices, their properties and attributes, versions: all from the simulated GPU's profile.
#include "shim/cudart/cudart.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include <dlfcn.h>

#include "shim/calls/device_reset.h"
#include "shim/calls/stream_calls.h"
#include "shim/core/config.h"
#include "shim/core/properties.h"

using namespace ph;
using namespace ph::cudart;

namespace {

// A bit per peer; of the process, as contexts are.
std::atomic<std::uint64_t> enabled_peers[64];
[[maybe_unused]] const bool registered = calls::at_device_reset([](int device) noexcept { enabled_peers[device] = 0; });

// Fields of cudaDeviceProp that the profile names; the others stay zero.
void fill_properties(cudaDeviceProp& properties, int device) {
  properties = {};
  std::snprintf(properties.name, sizeof properties.name, "%s", config().text("gpu.name").c_str());
  device_uuid(node_gpu(device), reinterpret_cast<unsigned char*>(properties.uuid.bytes));
#define PH_FIELD(field)            \
  if (config().has("gpu." #field)) \
  properties.field = static_cast<decltype(properties.field)>(config().number("gpu." #field))
#define PH_FIELD3(field)                                                                                 \
  for (int i = 0; i < 3; ++i) {                                                                          \
    const std::string key = "gpu." #field "." + std::to_string(i);                                       \
    if (config().has(key.c_str())) properties.field[i] = static_cast<int>(config().number(key.c_str())); \
  }
  PH_FIELD(totalGlobalMem);
  PH_FIELD(sharedMemPerBlock);
  PH_FIELD(regsPerBlock);
  PH_FIELD(warpSize);
  PH_FIELD(memPitch);
  PH_FIELD(maxThreadsPerBlock);
  PH_FIELD(totalConstMem);
  PH_FIELD(major);
  PH_FIELD(minor);
  PH_FIELD(textureAlignment);
  PH_FIELD(texturePitchAlignment);
  PH_FIELD(multiProcessorCount);
  PH_FIELD(integrated);
  PH_FIELD(canMapHostMemory);
  PH_FIELD(surfaceAlignment);
  PH_FIELD(concurrentKernels);
  PH_FIELD(ECCEnabled);
  PH_FIELD(pciDeviceID);
  PH_FIELD(pciDomainID);
  PH_FIELD(tccDriver);
  PH_FIELD(asyncEngineCount);
  PH_FIELD(unifiedAddressing);
  PH_FIELD(memoryBusWidth);
  PH_FIELD(l2CacheSize);
  PH_FIELD(persistingL2CacheMaxSize);
  PH_FIELD(maxThreadsPerMultiProcessor);
  PH_FIELD(streamPrioritiesSupported);
  PH_FIELD(globalL1CacheSupported);
  PH_FIELD(localL1CacheSupported);
  PH_FIELD(sharedMemPerMultiprocessor);
  PH_FIELD(regsPerMultiprocessor);
  PH_FIELD(managedMemory);
  PH_FIELD(hostNativeAtomicSupported);
  PH_FIELD(pageableMemoryAccess);
  PH_FIELD(concurrentManagedAccess);
  PH_FIELD(computePreemptionSupported);
  PH_FIELD(canUseHostPointerForRegisteredMem);
  PH_FIELD(cooperativeLaunch);
  PH_FIELD(sharedMemPerBlockOptin);
  PH_FIELD(maxBlocksPerMultiProcessor);
  PH_FIELD(accessPolicyMaxWindowSize);
  PH_FIELD(reservedSharedMemPerBlock);
  PH_FIELD(hostRegisterSupported);
  PH_FIELD(memoryPoolsSupported);
  PH_FIELD(gpuDirectRDMASupported);
  PH_FIELD(ipcEventSupported);
  PH_FIELD(clusterLaunch);
  PH_FIELD(unifiedFunctionPointers);
  PH_FIELD3(maxThreadsDim);
  PH_FIELD3(maxGridSize);
#undef PH_FIELD
#undef PH_FIELD3
  properties.pciBusID = device_pci_bus(node_gpu(device));
}

}  // namespace

extern "C" {

PH_EXPORT cudaError_t cudaGetDeviceCount(int* count) noexcept {
  PH_CALL(cudaGetDeviceCount);
  if (count == nullptr) return returned(cudaErrorInvalidValue);
  *count = visible_devices();
  return *count > 0 ? cudaSuccess : returned(cudaErrorNoDevice);
}

PH_EXPORT cudaError_t cudaGetDevice(int* device) noexcept {
  PH_CALL(cudaGetDevice);
  if (device == nullptr) return returned(cudaErrorInvalidValue);
  *device = current_device();
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaSetDevice(int device) noexcept {
  PH_CALL(cudaSetDevice);
  if (!set_current_device(device)) return returned(cudaErrorInvalidDevice);
  choose_context(device);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaInitDevice(int device, unsigned, unsigned) noexcept {
  PH_CALL(cudaInitDevice);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  choose_context(device);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) noexcept {
  PH_CALL(cudaGetDeviceProperties);
  if (properties == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  fill_properties(*properties, device);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) noexcept {
  PH_CALL(cudaDeviceGetAttribute);
  if (value == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  return device_attribute(device, attribute, *value) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) noexcept {
  PH_CALL(cudaDeviceGetPCIBusId);
  if (text == nullptr || length < 13) return returned(cudaErrorInvalidValue);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0",
                static_cast<unsigned>(device_pci_bus(node_gpu(device))));
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) noexcept {
  PH_CALL(cudaDeviceGetStreamPriorityRange);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;  // as deviceQuery prints for compute capability 7.0 and later
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaDeviceSynchronize() noexcept {
  PH_CALL(cudaDeviceSynchronize, HostCost::Sync);
  PH_CHECK_CAPTURE(check_unsafe_call());
  return returned("cudaDeviceSynchronize", calls::synchronize_device());
}

PH_EXPORT cudaError_t cudaDeviceReset() noexcept {
  PH_CALL(cudaDeviceReset, HostCost::Setup);
  PH_CHECK_CAPTURE(check_unsafe_call());
  calls::reset_device(current_device());
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) noexcept {
  PH_CALL(cudaDeviceCanAccessPeer);
  if (can == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_device(device) || !is_device(peer)) return returned(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) noexcept {
  PH_CALL(cudaDeviceEnablePeerAccess);
  if (flags != 0) return returned(cudaErrorInvalidValue);
  if (!is_device(peer)) return returned(cudaErrorInvalidDevice);
  if (peer == current_device()) return returned(cudaErrorPeerAccessUnsupported);
  const std::uint64_t bit = std::uint64_t{1} << peer;
  const bool was_enabled = (enabled_peers[current_device()].fetch_or(bit) & bit) != 0;
  return was_enabled ? returned(cudaErrorPeerAccessAlreadyEnabled) : cudaSuccess;
}

PH_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) noexcept {
  PH_CALL(cudaDeviceDisablePeerAccess);
  if (!is_device(peer)) return returned(cudaErrorInvalidDevice);
  const std::uint64_t bit = std::uint64_t{1} << peer;
  const bool was_enabled = (enabled_peers[current_device()].fetch_and(~bit) & bit) != 0;
  return was_enabled ? cudaSuccess : returned(cudaErrorPeerAccessNotEnabled);
}

PH_EXPORT cudaError_t cudaDriverGetVersion(int* version) noexcept {
  PH_CALL(cudaDriverGetVersion);
  if (version == nullptr) return returned(cudaErrorInvalidValue);
  *version = static_cast<int>(config().number("gpu.driverVersion"));
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) noexcept {
  PH_CALL(cudaRuntimeGetVersion);
  if (version == nullptr) return returned(cudaErrorInvalidValue);
  *version = static_cast<int>(config().number("gpu.driverVersion"));
  return cudaSuccess;
}

// The driver API's functions are ours too, in libcuda.so.1.
PH_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                                       unsigned long long flags,
                                                       cudaDriverEntryPointQueryResult* result) noexcept {
  PH_CALL(cudaGetDriverEntryPointByVersion);
  if (symbol == nullptr || function == nullptr) return returned(cudaErrorInvalidValue);
  using GetProcAddress = int (*)(const char*, void**, int, unsigned long long, void*);
  static const auto get = reinterpret_cast<GetProcAddress>(dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2"));
  if (get == nullptr) return returned(cudaErrorInitializationError);
  get(symbol, function, static_cast<int>(version), flags, nullptr);
  const bool found = *function != nullptr;
  if (result != nullptr) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// Of programs that were built with CUDA 12: the version is the runtime's.
PH_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                              cudaDriverEntryPointQueryResult* result) noexcept {
  PH_CALL(cudaGetDriverEntryPoint);
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}

}  // extern "C"
