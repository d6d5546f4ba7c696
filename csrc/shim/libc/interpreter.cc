#include "shim/libc/interpreter.h"

#include <atomic>
#include <cstdint>

#include <dlfcn.h>
#include <link.h>

namespace ph {

namespace {

// The loaded image (executable or libpython) that the interpreter is in; all zero if there is none.
struct Interpreter {
  int (*holds_gil)() = nullptr;
  void* (*state_of_thread)() = nullptr;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

int find_image(dl_phdr_info* image, std::size_t, void* out) noexcept {
  auto& interpreter = *static_cast<Interpreter*>(out);
  const auto inside = reinterpret_cast<std::uintptr_t>(interpreter.holds_gil);
  for (int i = 0; i < image->dlpi_phnum; ++i) {
    const auto& segment = image->dlpi_phdr[i];
    const std::uintptr_t begin = image->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || inside < begin || inside >= begin + segment.p_memsz) continue;
    interpreter.begin = begin;
    interpreter.end = begin + segment.p_memsz;
    return 1;
  }
  return 0;
}

// Found once, without a lock: a thread may come here while it holds the dynamic linker's.
const Interpreter& interpreter() noexcept {
  static std::atomic<const Interpreter*> found{nullptr};
  const Interpreter* known = found.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto* fresh = new Interpreter;
  fresh->holds_gil = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  fresh->state_of_thread = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  if (fresh->holds_gil != nullptr) dl_iterate_phdr(find_image, fresh);
  found.store(fresh, std::memory_order_release);
  return *fresh;
}

bool is_inside(const void* caller) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return address >= interpreter().begin && address < interpreter().end;
}

}  // namespace

bool is_of_python(const void* caller) noexcept { return is_inside(caller); }

bool is_wait_for_gil(const void* caller) noexcept { return is_inside(caller); }

bool is_lock_of_python(const void* caller) noexcept { return is_inside(caller); }

bool is_interpreters_own_read(const void* caller) noexcept {
  return is_inside(caller) && interpreter().holds_gil() == 0;
}

bool holds_gil() noexcept { return interpreter().holds_gil != nullptr && interpreter().holds_gil() != 0; }

bool is_programs_thread() noexcept {
  return interpreter().state_of_thread == nullptr || interpreter().state_of_thread() != nullptr;
}

}  // namespace ph
