#include "shim/modules/autograd.h"

#include <atomic>
#include <cstring>
#include <memory>

#include <dlfcn.h>

namespace ph::modules {

namespace {

// What get_current_node returns, by a hidden first argument: a std::shared_ptr<Node>, or in later releases a
// c10::intrusive_ptr<Node>, which has the node alone, and counts in the node behind its table of functions.
struct Returned {
  void* node;
  void* counts;
};
static_assert(sizeof(Returned) == sizeof(std::shared_ptr<void>));
constexpr std::size_t kOwnCountAt = 8;

using CurrentNode = void*(Returned*);
using Number = std::uint64_t();

// The engine itself refers to the node as long as it is evaluated, so that this reference is never the last, nor the last
// but one, which would concern Python.
void let_go(Returned& returned) noexcept {
  if (returned.counts != nullptr) {
    std::destroy_at(reinterpret_cast<std::shared_ptr<void>*>(&returned));
  } else if (returned.node != nullptr) {
    auto* const count = reinterpret_cast<std::uint64_t*>(static_cast<char*>(returned.node) + kOwnCountAt);
    std::atomic_ref(*count).fetch_sub(1, std::memory_order_acq_rel);
  }
}

struct Autograd {
  CurrentNode* current_node;
  Number* peek;
  Number* thread;
  std::size_t sequence_at;
  std::size_t thread_at;
};

Autograd found{};
std::atomic<bool> is_found{false};

template <typename Function>
bool find(void* library, Function*& function, const char* symbol) noexcept {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace

bool find_autograd(std::size_t sequence_at, std::size_t thread_at) noexcept {
  void* const library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr || !find(library, found.current_node, "_ZN5torch8autograd16get_current_nodeEv") ||
      !find(library, found.peek, "_ZN2at15sequence_number4peekEv") ||
      !find(library, found.thread, "_ZN2at14RecordFunction15currentThreadIdEv"))
    return false;
  found.sequence_at = sequence_at;
  found.thread_at = thread_at;
  is_found.store(true, std::memory_order_release);
  return true;
}

bool evaluated_node(Node& node) noexcept {
  if (!is_found.load(std::memory_order_acquire)) return false;
  Returned current{};
  found.current_node(&current);
  if (current.node == nullptr) return false;
  const char* const at = static_cast<const char*>(current.node);
  std::memcpy(&node.sequence, at + found.sequence_at, sizeof node.sequence);
  std::memcpy(&node.thread, at + found.thread_at, sizeof node.thread);
  let_go(current);
  return true;
}

Node next_node() noexcept {
  if (!is_found.load(std::memory_order_acquire)) return {kNoSequence, 0};
  static thread_local const std::uint64_t thread = found.thread();
  return {found.peek(), thread};
}

}  // namespace ph::modules
