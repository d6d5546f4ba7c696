// A vendor library asked for by path is ours.
//
// Preloading by SONAME answers every NEEDED entry and every dlopen by name, but not a dlopen by full path:
// there the loader compares files, and maps the vendor's library beside ours. PyTorch 2.15 asks so at import
// for every CUDA wheel that it finds (`_preload_cuda_deps`), cuda.bindings always: two gigabytes mapped and
// relocated for nothing, and entry points that lead past the model.
#include <dlfcn.h>

#include <string_view>

#include "shim/core/api.h"

namespace ph {

namespace {

using Dlopen = void* (*)(const char*, int) noexcept;

Dlopen real_dlopen() noexcept {
  static const auto function = reinterpret_cast<Dlopen>(dlsym(RTLD_NEXT, "dlopen"));
  return function;
}

// "libcudnn.so", "libcudnn.so.9" and "libcudnn.so.9.26.0" name "libcudnn.so.9"; another major version does not.
bool names_library(std::string_view file, std::string_view soname) noexcept {
  if (file.size() < soname.size()) return file == soname.substr(0, soname.rfind('.'));
  return file.starts_with(soname) && (file.size() == soname.size() || file[soname.size()] == '.');
}

// The SONAME of the library of ours that `path` names, or else `path` itself.
const char* replacement_library(const char* path) noexcept {
  if (path == nullptr) return path;
  std::string_view file = path;
  file.remove_prefix(file.rfind('/') + 1);
  for (const ApiTable* table = first_registered_table(); table != nullptr; table = table->next) {
    if (names_library(file, table->soname)) return table->soname;
  }
  return path;
}

}  // namespace

}  // namespace ph

// The loader searches the RUNPATH of its caller, which it knows by the return address: this must end in a jump,
// not in a call. Both types are noexcept and the attribute is there so that it does, in a debug build too.
extern "C" PH_EXPORT __attribute__((optimize("O2"))) void* dlopen(const char* path, int mode) noexcept {
  return ph::real_dlopen()(ph::replacement_library(path), mode);
}
