// Functions of PyTorch's that the shim stands in for, to hear of their calls.
#pragma once

#include <dlfcn.h>

namespace ph {

// The function of libc10 of this mangled name, nullptr if it has none. PyTorch's libraries are not in the global scope,
// where RTLD_NEXT would look.
inline void* pytorch_function(const char* name) noexcept {
  void* library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, name);
}

}  // namespace ph
