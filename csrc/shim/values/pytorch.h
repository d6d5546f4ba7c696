// Functions of PyTorch's that the shim stands in for, to hear of their calls.
#pragma once

#include <dlfcn.h>

namespace ph {

// The function of this library of PyTorch's and this mangled name, nullptr if it has none. PyTorch's libraries are not in
// the global scope, where RTLD_NEXT would look.
inline void* pytorch_function(const char* library_name, const char* name) noexcept {
  void* library = dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, name);
}

// Whether PyTorch makes tensors in memory that is not its own by the function that we stand in for (values/blobs.cc).
bool hears_of_tensors() noexcept;

}  // namespace ph
