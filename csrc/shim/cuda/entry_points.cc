// cuGetProcAddress: our own functions by the vendor's unversioned names.
#include <string>
#include <string_view>

#include <dlfcn.h>

#include "shim/cuda/driver.h"

using namespace ph;

namespace {

void* own_symbol(const char* name) noexcept {
  static void* const self = dlopen(PH_SONAME, RTLD_LAZY | RTLD_NOLOAD);
  return self ? dlsym(self, name) : nullptr;
}

// What cuda.h makes of a plain name, "cuMemAlloc" to "cuMemAlloc_v2": the form that a program of this CUDA major
// was compiled against.
struct Alias {
  std::string_view plain, versioned;
};
#define PH_QUOTED(name) #name
#define API(name, support, note) {#name, PH_QUOTED(name)},
constexpr Alias kAliases[] = {
#include PH_TABLE
};
#undef API

// A call that CUDA 13 gave other arguments: a program asks for the form that it knows.
constexpr int kCuda13 = 13000;
constexpr std::string_view kOtherIn13 = "cuMemcpyBatchAsync";

void* function_of(std::string_view name, int version) noexcept {
  if (name == kOtherIn13 && version < kCuda13) return own_symbol(kOtherIn13.data());
  if (name == kOtherIn13) return own_symbol("cuMemcpyBatchAsync_v2");
  for (const Alias& alias : kAliases) {
    if (alias.plain == name) return own_symbol(alias.versioned.data());
  }
  return nullptr;
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t,
                                       CUdriverProcAddressQueryResult* status) noexcept {
  PH_CALL(cuGetProcAddress_v2);
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = function_of(symbol, version);
  if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;  // for unknown symbols too. Source: cuda.h, cuGetProcAddress
}

// Private tables, by which the vendor's libraries talk to its driver. Ours have no need of them. The compiler
// (nvrtc/compiler.cc) asks, too, and does as well without. CUPTI crashes without. Any other file has the vendor's
// runtime linked statically.
PH_EXPORT CUresult cuGetExportTable(const void**, const CUuuid*) noexcept {
  Dl_info caller{};
  dladdr(__builtin_return_address(0), &caller);
  const std::string file = caller.dli_fname ? caller.dli_fname : "code of no file";
  if (file.find("/libnvrtc") != std::string::npos) return CUDA_ERROR_NOT_FOUND;
  const bool is_profiler = file.find("/libcupti") != std::string::npos;
  const std::string detail =
      "asked for by " + file +
      (is_profiler ? ", a CUPTI of its own: PyTorch's profiler sees the GPU, other profilers do not"
                   : ", which links the CUDA runtime statically: build it with --cudart=shared");
  stop_unsupported(PH_LIBRARY, "cuGetExportTable", detail.c_str());
}

// The form of CUDA 11, without a status; cuda.h declares only the newer one.
#undef cuGetProcAddress
PH_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t) noexcept {
  PH_CALL(cuGetProcAddress);
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = function_of(symbol, version);
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // extern "C"
