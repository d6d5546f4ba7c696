// Nothing is called per module, and a record says nothing more than a number: at a launch the thread's Python frames are
// read as for its line (python/python_frame.cc), up to a call of nn.Module, whose `self` is the module. In a backward
// pass there is no such frame. Then the node that autograd evaluates tells, by its number, when it was made (autograd.h),
// and so for which module (made_nodes.h). Functions that begin backward passes, or clip gradients, are found as modules
// are: torch.compile would see a function put around them.
//
// A module that is seen for the first time gets a number. Its path is found by Python (phantora_py/rank/modules.py), which
// the interpreter calls as soon as it may.
#include "shim/modules/scope.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <unordered_map>

#include <dlfcn.h>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/modules/autograd.h"
#include "shim/modules/made_nodes.h"
#include "shim/python/python_frame.h"
#include "shim/python/python_layout.h"

namespace ph {

namespace {

using namespace modules;

// As phantora_py/data/rows.py orders them; 0: none of these.
enum class Phase : std::uint32_t { Other = 0, Forward = 1, Recomputation = 2, Backward = 3, Optimizer = 4 };
constexpr unsigned kPhaseBits = 3;

using PendingCall = int(void*);
using AddPendingCall = int(PendingCall*, void*);

std::atomic<bool> is_followed{false};
const void* call_code = nullptr;  // of nn.Module.__call__

// Functions whose own work, outside of modules that they call, is known.
struct Function {
  std::atomic<const void*> code{nullptr};
  std::uint32_t scope = 0;
};
std::array<Function, 8> functions;  // from the first on; those that are free have no code

PendingCall* find_names = nullptr;
AddPendingCall* add_pending_call = nullptr;

std::mutex mutex;  // guards the numbers
auto& numbers = *new std::unordered_map<const void*, std::uint32_t>;  // by module; never destroyed: threads still work
std::uint32_t numbers_given = 0;
std::atomic<std::uint32_t> forgotten{0};  // how many modules are gone, whose addresses others may get

// Per thread, by address.
constexpr std::size_t kCacheEntries = 256;

struct Known {
  const void* module;
  std::uint32_t number;
  std::uint32_t forgotten;
};
thread_local std::array<Known, kCacheEntries> known_modules;

// What the program does beside the calls of its modules.
struct Beside {
  std::uint32_t scope = 0;
  bool is_within = false;  // it has begun while a node was evaluated, and this one
  Node node{};
};
thread_local Beside beside;

// What follows a model's forward pass and makes nodes is the loss.
enum class AfterModel { No, Maybe, Loss };
thread_local AfterModel after_model = AfterModel::No;

thread_local std::uint32_t last_made_by = 0;  // of the nodes that were evaluated

constexpr std::uint32_t scope_of(Phase phase, std::uint32_t number) noexcept {
  return number << kPhaseBits | static_cast<std::uint32_t>(phase);
}

// With `mutex` held.
std::uint32_t number_of(const void* module) {
  const auto [entry, is_new] = numbers.try_emplace(module, 0);
  if (is_new) entry->second = ++numbers_given;
  return entry->second;
}

std::uint32_t seen_number(const void* module) {
  Known& known = known_modules[(reinterpret_cast<std::uintptr_t>(module) >> 4) % kCacheEntries];
  const std::uint32_t now_forgotten = forgotten.load(std::memory_order_acquire);
  if (known.module == module && known.forgotten == now_forgotten) return known.number;
  const std::lock_guard lock(mutex);
  const bool is_new = !numbers.contains(module);
  known = {module, number_of(module), now_forgotten};
  // Refused only while too many wait already, this one among them.
  if (is_new) add_pending_call(find_names, nullptr);
  return known.number;
}

std::uint32_t scope_of_function(const void* code) noexcept {
  for (const Function& one : functions) {
    const void* const its = one.code.load(std::memory_order_acquire);
    if (its == nullptr) return 0;
    if (its == code) return one.scope;
  }
  return 0;
}

struct Called {
  const void* module = nullptr;
  std::uint32_t function_scope = 0;
};

// Which of them is the innermost call under way on this thread, if there is one.
Called called() noexcept {
  python::Walk walk;
  while (const python::Frame* frame = walk.next()) {
    if (frame->code == call_code) return {.module = python::first_local(*frame)};
    if (const std::uint32_t scope = scope_of_function(frame->code); scope != 0) return {.function_scope = scope};
  }
  return {};
}

// Outside of all calls of modules and all nodes.
std::uint32_t scope_beside(std::uint32_t function_scope) noexcept {
  if (function_scope != 0) {
    after_model = AfterModel::No;
    return function_scope;
  }
  if (beside.scope != 0) return beside.scope;
  if (on_autograd_thread()) return scope_of(Phase::Backward, 0);
  const Node next = next_node();
  if (after_model == AfterModel::Maybe && has_made_nodes(next)) after_model = AfterModel::Loss;
  note_forward(next, 0);
  return scope_of(after_model == AfterModel::Loss ? Phase::Forward : Phase::Other, 0);
}

}  // namespace

bool modules::are_followed() noexcept { return is_followed.load(std::memory_order_acquire); }

std::uint32_t current_scope() noexcept {
  if (!are_followed()) return 0;
  const auto [module, function_scope] = called();
  Node node{};
  const bool is_backward = evaluated_node(node);
  if (module != nullptr) {
    const std::uint32_t number = seen_number(module);
    note_forward(next_node(), number);
    if (is_backward) return scope_of(Phase::Recomputation, number);
    after_model = AfterModel::Maybe;
    return scope_of(Phase::Forward, number);
  }
  if (!is_backward || (beside.is_within && beside.node == node)) return scope_beside(function_scope);
  if (node.sequence != kNoSequence) last_made_by = maker_of(node);
  return scope_of(Phase::Backward, last_made_by);
}

}  // namespace ph

// For phantora_py/rank/modules.py, which holds the GIL.
extern "C" {

// `code`: of nn.Module.__call__; `find_names`: is called when a module has got a number. False: PyTorch or the
// interpreter lacks a function.
PH_EXPORT int ph_follow_modules(const void* code, int (*find_names)(void*), std::size_t sequence_at,
                                std::size_t thread_at) noexcept {
  void* const pending = dlsym(RTLD_DEFAULT, "Py_AddPendingCall");
  if (pending == nullptr || !ph::modules::find_autograd(sequence_at, thread_at)) return 0;
  ph::call_code = code;
  ph::find_names = find_names;
  ph::add_pending_call = reinterpret_cast<ph::AddPendingCall*>(pending);
  ph::is_followed.store(true, std::memory_order_release);
  return 1;
}
PH_EXPORT void ph_follow_no_modules() noexcept { ph::is_followed.store(false); }

PH_EXPORT const void* ph_called_module() noexcept { return ph::called().module; }

// What a function with this code issues is for `scope`, as a record says it.
PH_EXPORT void ph_scope_of_function(const void* code, std::uint32_t scope) noexcept {
  const std::lock_guard lock(ph::mutex);
  for (ph::Function& one : ph::functions) {
    if (one.code.load() != nullptr) continue;
    one.scope = scope;
    one.code.store(code, std::memory_order_release);
    return;
  }
}

// `outer`: the number of the module that it is part of; 0: none.
PH_EXPORT std::uint32_t ph_module_number(const void* module, std::uint32_t outer) noexcept {
  const std::lock_guard lock(ph::mutex);
  const std::uint32_t number = ph::number_of(module);
  if (outer != 0) ph::modules::set_outer(number, outer);
  return number;
}

// The module is gone.
PH_EXPORT void ph_forget_module(const void* module) noexcept {
  const std::lock_guard lock(ph::mutex);
  ph::numbers.erase(module);
  ph::forgotten.fetch_add(1, std::memory_order_acq_rel);
}

// What this thread does from now on beside calls of modules and nodes of autograd, as a record says it.
PH_EXPORT void ph_work_beside(std::uint32_t scope) noexcept {
  ph::beside = {.scope = scope};
  ph::beside.is_within = scope != 0 && ph::modules::evaluated_node(ph::beside.node);
  ph::after_model = ph::AfterModel::No;
}

}  // extern "C"
