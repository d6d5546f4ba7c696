// The run-time compiler: the vendor's own, which needs no GPU and makes real machine code.
//
// Ours stands in its place so that it is loaded when something is compiled, and not with every rank. It takes no
// virtual time, as Inductor's compilers do not.
#include <dlfcn.h>
#include <link.h>

#include <string>

#include "shim/calls/library.h"
#include "shim/nvrtc/nvrtc_types.h"

using namespace ph;

namespace {

// PyTorch's own library, whose folder its wheel's RPATH starts from.
int find_torch(dl_phdr_info* info, std::size_t, void* folder) noexcept {
  const std::string path = info->dlpi_name;
  const auto slash = path.rfind('/');
  if (slash == std::string::npos || path.substr(slash) != "/libtorch_cuda.so") return 0;
  *static_cast<std::string*>(folder) = path.substr(0, slash);
  return 1;
}

// Not through dlopen, which would give ours. Source of the folders: the RPATH of the wheels of PyTorch 2.5 to 2.15.
void* open_vendor() {
  std::string torch;
  dl_iterate_phdr(find_torch, &torch);
  for (const char* package : {"cu13", "cuda_nvrtc"}) {
    const std::string path = torch + "/../../nvidia/" + package + "/lib/" + PH_SONAME;
    if (void* library = dlmopen(LM_ID_BASE, path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND)) return library;
  }
  return nullptr;
}

void* vendor_function(const char* name) noexcept {
  static void* const library = open_vendor();
  void* function = library ? dlsym(library, name) : nullptr;
  if (!function) stop_unsupported(PH_LIBRARY, name, "no " PH_SONAME " beside PyTorch: pip install nvidia-cuda-nvrtc");
  return function;
}

}  // namespace

#define PH_FORWARD(result, name, parameters, arguments)                                        \
  PH_EXPORT result name parameters noexcept {                                                  \
    PH_CALL(name);                                                                             \
    static const auto vendor = reinterpret_cast<result(*) parameters>(vendor_function(#name)); \
    return vendor arguments;                                                                   \
  }

extern "C" {

PH_FORWARD(nvrtcResult, nvrtcVersion, (int* major, int* minor), (major, minor))
PH_FORWARD(nvrtcResult, nvrtcGetNumSupportedArchs, (int* count), (count))
PH_FORWARD(nvrtcResult, nvrtcGetSupportedArchs, (int* supported), (supported))
PH_FORWARD(const char*, nvrtcGetErrorString, (nvrtcResult result), (result))
PH_FORWARD(nvrtcResult, nvrtcCreateProgram,
           (nvrtcProgram * program, const char* source, const char* name, int headers, const char* const* texts,
            const char* const* names),
           (program, source, name, headers, texts, names))
PH_FORWARD(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram * program), (program))
PH_FORWARD(nvrtcResult, nvrtcAddNameExpression, (nvrtcProgram program, const char* expression), (program, expression))
PH_FORWARD(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram program, int count, const char* const* options),
           (program, count, options))
PH_FORWARD(nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram program, std::size_t* bytes), (program, bytes))
PH_FORWARD(nvrtcResult, nvrtcGetPTX, (nvrtcProgram program, char* text), (program, text))
PH_FORWARD(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram program, std::size_t* bytes), (program, bytes))
PH_FORWARD(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram program, char* image), (program, image))
PH_FORWARD(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram program, std::size_t* bytes), (program, bytes))
PH_FORWARD(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram program, char* log), (program, log))
PH_FORWARD(nvrtcResult, nvrtcGetLoweredName, (nvrtcProgram program, const char* expression, const char** name),
           (program, expression, name))

}  // extern "C"
