#include "shim/libc/framework.h"

#include <string_view>

#include <dlfcn.h>

namespace ph {

bool is_frameworks_own(const void* caller) noexcept {
  Dl_info image{};
  if (dladdr(caller, &image) == 0 || image.dli_fname == nullptr) return false;
  std::string_view file(image.dli_fname);
  file.remove_prefix(file.rfind('/') + 1);
  return file.starts_with("libtorch") || file.starts_with("libc10");
}

}  // namespace ph
