// Modules and libraries: loading images, finding functions, their attributes.
#include "shim/cuda/modules.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "shim/core/handles.h"

using namespace ph;
using namespace ph::driver;

namespace {

struct Module {
  Image image;
  std::map<std::string, void*, std::less<>> functions;
};

constinit HandleTable<std::shared_ptr<Module>> modules(HandleTag::Module);
constinit HandleTable<std::shared_ptr<Module>> libraries(HandleTag::Library);
constinit HandleTable<Function> functions(HandleTag::Function);
std::mutex mutex;  // guards the maps of functions

using Modules = HandleTable<std::shared_ptr<Module>>;

CUresult load(Modules& table, void** handle, const void* data) noexcept {
  if (!handle || !data) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_shared<Module>();
  if (!read_image(data, module->image)) return CUDA_ERROR_INVALID_IMAGE;
  if (keeps_launches()) keep_image(module->image.hash, module->image.data, module->image.bytes);
  *handle = table.create(std::move(module));
  return *handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult load_file(Modules& table, void** handle, const char* path) noexcept {
  if (!handle || !path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  return load(table, handle, data.c_str());
}

CUresult unload(Modules& table, const void* handle) noexcept {
  const std::shared_ptr<Module>* module = table.get(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, function] : (*module)->functions) functions.destroy(function);
  return table.destroy(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// False: the image has no such kernel.
bool find_kernel(const Image& image, const char* name, ImageKernel& kernel) noexcept {
  const auto found = std::find_if(image.kernels.begin(), image.kernels.end(),
                                  [name](const ImageKernel& candidate) { return candidate.name == name; });
  if (found != image.kernels.end()) {
    kernel = *found;
    return true;
  }
  kernel.name = name;
  return !image.lists_kernels;
}

CUresult get_function(Modules& table, void** result, void* handle, const char* name) noexcept {
  if (!result || !name) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Module>* module = table.get(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(mutex);
  void*& function = (*module)->functions[name];
  if (!function) {
    Function made;
    if (!find_kernel((*module)->image, name, made.facts)) return CUDA_ERROR_NOT_FOUND;
    made.kernel = make_kernel_function(name, {.module_hash = (*module)->image.hash,
                                              .thread_bytes = made.facts.accesses.thread_bytes,
                                              .stored_bytes = made.facts.accesses.stored_bytes,
                                              .narrowest_store_bytes = made.facts.accesses.narrowest_store_bytes,
                                              .parameter_bytes = made.facts.parameter_bytes,
                                              .lists_parameters = made.facts.lists_parameters});
    made.owner = handle;
    function = functions.create(std::move(made));
  }
  *result = function;
  return function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult get_attribute(int* value, CUfunction_attribute attribute, const void* handle) noexcept {
  const Function* function = find_function(handle);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const auto capability = [] {
    return static_cast<int>(config().number("gpu.major") * 10 + config().number("gpu.minor"));
  };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(config().number("gpu.maxThreadsPerBlock"));
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(function->facts.static_shared_bytes); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = static_cast<int>(function->facts.registers); break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = capability(); break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function->max_dynamic_shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = function->shared_carveout; break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = function->non_portable_cluster; break;
    // Spills and constants are not read from the image: none, as for the kernels that compilers aim for.
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_attribute(const void* handle, CUfunction_attribute attribute, int value) noexcept {
  Function* function = find_function(handle);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const std::int64_t total = std::int64_t{value} + function->facts.static_shared_bytes;
      if (value < 0 || total > config().number("gpu.sharedMemPerBlockOptin")) return CUDA_ERROR_INVALID_VALUE;
      function->max_dynamic_shared_bytes = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: function->shared_carveout = value; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      function->non_portable_cluster = value != 0;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// A preference about the cache changes no time that we model.
CUresult check_function(const void* handle) noexcept {
  return find_function(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult get_name(const char** name, const void* handle) noexcept {
  const Function* function = find_function(handle);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel_name(*function->kernel);
  return CUDA_SUCCESS;
}

}  // namespace

namespace ph::driver {
Function* find_function(const void* handle) noexcept { return functions.get(handle); }
}  // namespace ph::driver

extern "C" {

#define PH_AS_HANDLE(pointer) reinterpret_cast<void**>(pointer)

PH_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) noexcept {
  PH_CALL(cuModuleLoad, HostCost::Setup);
  return load_file(modules, PH_AS_HANDLE(module), path);
}

PH_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) noexcept {
  PH_CALL(cuModuleLoadData, HostCost::Setup);
  return load(modules, PH_AS_HANDLE(module), image);
}

PH_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) noexcept {
  PH_CALL(cuModuleLoadDataEx, HostCost::Setup);
  return load(modules, PH_AS_HANDLE(module), image);
}

PH_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) noexcept {
  PH_CALL(cuModuleLoadFatBinary, HostCost::Setup);
  return load(modules, PH_AS_HANDLE(module), image);
}

PH_EXPORT CUresult cuModuleUnload(CUmodule module) noexcept {
  PH_CALL(cuModuleUnload, HostCost::Setup);
  return unload(modules, module);
}

PH_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) noexcept {
  PH_CALL(cuModuleGetFunction, HostCost::Setup);
  return get_function(modules, PH_AS_HANDLE(function), module, name);
}

PH_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) noexcept {
  PH_CALL(cuModuleGetLoadingMode);
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned,
                                     CUlibraryOption*, void**, unsigned) noexcept {
  PH_CALL(cuLibraryLoadData, HostCost::Setup);
  return load(libraries, PH_AS_HANDLE(library), image);
}

PH_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned,
                                         CUlibraryOption*, void**, unsigned) noexcept {
  PH_CALL(cuLibraryLoadFromFile, HostCost::Setup);
  return load_file(libraries, PH_AS_HANDLE(library), path);
}

PH_EXPORT CUresult cuLibraryUnload(CUlibrary library) noexcept {
  PH_CALL(cuLibraryUnload, HostCost::Setup);
  return unload(libraries, library);
}

PH_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) noexcept {
  PH_CALL(cuLibraryGetKernel, HostCost::Setup);
  return get_function(libraries, PH_AS_HANDLE(kernel), library, name);
}

PH_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) noexcept {
  PH_CALL(cuKernelGetFunction);
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  if (!find_function(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) noexcept {
  PH_CALL(cuKernelGetName);
  return get_name(name, kernel);
}

PH_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                        CUdevice) noexcept {
  PH_CALL(cuKernelGetAttribute);
  return get_attribute(value, attribute, kernel);
}

PH_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) noexcept {
  PH_CALL(cuKernelSetAttribute);
  return set_attribute(kernel, attribute, value);
}

PH_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) noexcept {
  PH_CALL(cuKernelSetCacheConfig);
  return check_function(kernel);
}

PH_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) noexcept {
  PH_CALL(cuFuncGetName);
  return get_name(name, function);
}

PH_EXPORT CUresult cuFuncGetModule(CUmodule* module, CUfunction function) noexcept {
  PH_CALL(cuFuncGetModule);
  const Function* found = find_function(function);
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  *module = static_cast<CUmodule>(found->owner);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) noexcept {
  PH_CALL(cuFuncGetAttribute);
  return get_attribute(value, attribute, function);
}

PH_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) noexcept {
  PH_CALL(cuFuncSetAttribute);
  return set_attribute(function, attribute, value);
}

PH_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) noexcept {
  PH_CALL(cuFuncSetCacheConfig);
  return check_function(function);
}

PH_EXPORT CUresult cuFuncLoad(CUfunction function) noexcept {
  PH_CALL(cuFuncLoad, HostCost::Setup);
  return check_function(function);
}

PH_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) noexcept {
  PH_CALL(cuFuncIsLoaded);
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return check_function(function);
}

}  // extern "C"
