// Variables that a program declares for the device. One gets memory on a device when it is first asked for there:
// most programs of PyTorch's size register hundreds and touch none.
#include "shim/cudart/cudart.h"

#include <map>
#include <mutex>
#include <utility>

#include "shim/calls/device_reset.h"
#include "shim/values/extents.h"

using namespace ph;
using namespace ph::cudart;

namespace {

std::mutex mutex;
auto& addresses = *new std::map<std::pair<int, const void*>, char*>;

// Where `count` bytes at `offset` of the symbol are on the current device. The values that the code object gives a
// variable are not read: until the program writes them, nothing is known of them.
cudaError_t find(const void* symbol, std::size_t offset, std::size_t count, char** address) noexcept {
  const std::size_t bytes = variable_bytes(symbol);
  if (bytes == 0) return returned(cudaErrorInvalidSymbol);
  if (offset > bytes || count > bytes - offset) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex);
  char*& base = addresses[{current_device(), symbol}];
  if (base == nullptr) {
    base = static_cast<char*>(allocate_device(current_device(), bytes));
    if (base == nullptr) return returned(cudaErrorMemoryAllocation);
    note_variable(base, is_constant_variable(symbol));
  }
  *address = base + offset;
  return cudaSuccess;
}

cudaError_t write(const void* symbol, const void* source, std::size_t count, std::size_t offset, cudaMemcpyKind kind,
                  cudaStream_t stream, bool synchronous) noexcept {
  char* address = nullptr;
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost) return returned(cudaErrorInvalidMemcpyDirection);
  const cudaError_t error = find(symbol, offset, count, &address);
  return error != cudaSuccess ? error : copy(address, source, count, kind, stream, synchronous);
}

cudaError_t read(void* destination, const void* symbol, std::size_t count, std::size_t offset, cudaMemcpyKind kind,
                 cudaStream_t stream, bool synchronous) noexcept {
  char* address = nullptr;
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost) return returned(cudaErrorInvalidMemcpyDirection);
  const cudaError_t error = find(symbol, offset, count, &address);
  return error != cudaSuccess ? error : copy(destination, address, count, kind, stream, synchronous);
}

// A reset device has each variable anew.
[[maybe_unused]] const bool registered = calls::at_device_reset([](int device) noexcept {
  const std::lock_guard lock(mutex);
  std::erase_if(addresses, [device](const auto& entry) { return entry.first.first == device; });
});

}  // namespace

extern "C" {

PH_EXPORT cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) noexcept {
  PH_CALL(cudaGetSymbolAddress);
  if (pointer == nullptr) return returned(cudaErrorInvalidValue);
  return find(symbol, 0, 0, reinterpret_cast<char**>(pointer));
}

PH_EXPORT cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) noexcept {
  PH_CALL(cudaGetSymbolSize);
  if (bytes == nullptr) return returned(cudaErrorInvalidValue);
  *bytes = variable_bytes(symbol);
  return *bytes != 0 ? cudaSuccess : returned(cudaErrorInvalidSymbol);
}

PH_EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t count, std::size_t offset,
                                         cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaMemcpyToSymbol, HostCost::Copy);
  return write(symbol, source, count, offset, kind, nullptr, true);
}

PH_EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, std::size_t count,
                                              std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemcpyToSymbolAsync, HostCost::Copy);
  return write(symbol, source, count, offset, kind, stream, false);
}

PH_EXPORT cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol, std::size_t count, std::size_t offset,
                                           cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaMemcpyFromSymbol, HostCost::Copy);
  return read(destination, symbol, count, offset, kind, nullptr, true);
}

PH_EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void* destination, const void* symbol, std::size_t count,
                                                std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemcpyFromSymbolAsync, HostCost::Copy);
  return read(destination, symbol, count, offset, kind, stream, false);
}

}  // extern "C"
