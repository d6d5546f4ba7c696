#include "shim/core/own_memory.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

namespace ph {

std::vector<unsigned char> read_own_memory(const void* pointer, std::size_t bytes) noexcept {
  std::vector<unsigned char> found(bytes);
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  const ssize_t count = memory < 0 ? -1 : pread(memory, found.data(), bytes, reinterpret_cast<off_t>(pointer));
  if (memory >= 0) close(memory);
  found.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return found;
}

}  // namespace ph
