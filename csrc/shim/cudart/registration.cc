// Kernels announce themselves when their library is loaded: host stub, mangled name and fat binary. Of that no more is
// read than for which GPUs it is (compiled_for.cc) and, of kernels that are launched, how large their parameters are
// (parameter_table.cc).
#include "shim/cudart/cudart.h"

#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "shim/cudart/parameter_table.h"

namespace ph::cudart {

namespace {

struct Registered {
  const char* name = nullptr;          // the program's own string
  KernelFunction* function = nullptr;  // made at the first launch: of 24,000 kernels some hundred are used
  const void* fat_binary = nullptr;    // as it was registered
};

// Not destroyed: static destructors of the program unregister after ours would have run.
auto& mutex = *new std::shared_mutex;
auto& kernels = *new std::unordered_map<const void*, Registered>(32768);
struct Variable {
  std::size_t bytes;
  bool is_constant;
};
auto& variables = *new std::unordered_map<const void*, Variable>;

// Consecutive launches of a thread come from few stubs.
constexpr std::size_t kCachedStubs = 256;
struct CachedStub {
  const void* stub;
  KernelFunction* function;
};
thread_local CachedStub cached_stubs[kCachedStubs];

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  void* stream;
};
thread_local CallConfiguration pushed;

KernelCode code_of(const void* stub, const Registered& kernel) {
  return {.stub = stub, .find_parameters = [fat_binary = kernel.fat_binary, name = kernel.name] {
            return find_parameters(fat_binary, name);
          }};
}

KernelFunction* look_up(const void* stub) {
  const std::unique_lock lock(mutex);
  const auto entry = kernels.find(stub);
  if (entry == kernels.end()) return nullptr;
  if (entry->second.function == nullptr) {
    entry->second.function = make_kernel_function(entry->second.name, code_of(stub, entry->second));
  }
  return entry->second.function;
}

}  // namespace

KernelFunction* find_kernel(const void* stub) noexcept {
  CachedStub& cached = cached_stubs[(reinterpret_cast<std::uintptr_t>(stub) >> 4) % kCachedStubs];
  if (cached.stub != stub) cached = {stub, look_up(stub)};
  return cached.function;
}

const void* fat_binary_of(const void* stub) noexcept {
  const std::shared_lock lock(mutex);
  const auto entry = kernels.find(stub);
  return entry == kernels.end() ? nullptr : entry->second.fat_binary;
}

std::size_t variable_bytes(const void* symbol) noexcept {
  const std::shared_lock lock(mutex);
  const auto entry = variables.find(symbol);
  return entry == variables.end() ? 0 : entry->second.bytes;
}

bool is_constant_variable(const void* symbol) noexcept {
  const std::shared_lock lock(mutex);
  const auto entry = variables.find(symbol);
  return entry != variables.end() && entry->second.is_constant;
}

}  // namespace ph::cudart

using namespace ph::cudart;

extern "C" {

PH_EXPORT void** __cudaRegisterFatBinary(void* image) noexcept {
  // The handle travels back into the calls below.
  return static_cast<void**>(image);
}
PH_EXPORT void __cudaRegisterFatBinaryEnd(void**) noexcept {}
PH_EXPORT void __cudaUnregisterFatBinary(void**) noexcept {}

PH_EXPORT void __cudaRegisterFunction(void** fat_binary, const char* stub, char*, const char* name, int, void*, void*,
                                      void*, void*, int*) noexcept {
  const std::unique_lock lock(mutex);
  kernels[stub] = {name, nullptr, fat_binary};
}

PH_EXPORT void __cudaRegisterVar(void**, char* symbol, char*, const char*, int, std::size_t bytes, int constant,
                                 int) noexcept {
  const std::unique_lock lock(mutex);
  variables[symbol] = {bytes, constant != 0};
}

PH_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, void* stream) noexcept {
  PH_CALL(__cudaPushCallConfiguration);
  pushed = {grid, block, shared_bytes, stream};
  return 0;
}

PH_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                                 void* stream) noexcept {
  PH_CALL(__cudaPopCallConfiguration);
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<void**>(stream) = pushed.stream;
  return cudaSuccess;
}

// A kernel handle of ours is its host stub.
PH_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) noexcept {
  PH_CALL(__cudaGetKernel);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

}  // extern "C"
