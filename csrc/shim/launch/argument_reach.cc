#include "shim/launch/argument_reach.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <pthread.h>

#include "shim/core/own_memory.h"
#include "shim/launch/frames.h"
#include "shim/values/element_functions.h"
#include "shim/values/extents.h"
#include "shim/values/kept_addresses.h"
#include "shim/values/tensor_view.h"
#include "shim/values/value_reductions.h"
#include "shim/values/values.h"

namespace ph {

namespace {

using How = ReachPlan::How;
using Parameter = ReachPlan::Parameter;

constexpr std::size_t kHalfBytes = 4;

struct Reached {
  std::vector<const void*> written;
  std::size_t outputs = 0;  // of an elementwise kernel, the first of them
  std::vector<const void*> read;
  std::vector<Extent> inputs;  // of an elementwise kernel
  std::vector<const void*> pointers;  // to pointers that are written through
  std::vector<const void*> pinned;  // host memory that is written through
  std::vector<const void*> pinned_read;
  std::vector<const void*> host_inputs;  // of an elementwise kernel
  std::vector<std::uint32_t> halves;  // words of which two may be an address
  bool joins_halves = false;

  void clear() noexcept {
    written.clear();
    outputs = 0;
    read.clear();
    inputs.clear();
    pointers.clear();
    pinned.clear();
    pinned_read.clear();
    host_inputs.clear();
    halves.clear();
  }
};

const void* pointer_at(const void* base, std::size_t offset) noexcept {
  const void* pointer;
  std::memcpy(&pointer, static_cast<const char*>(base) + offset, sizeof pointer);
  return pointer;
}

std::uint32_t half_at(const void* base, std::size_t offset) noexcept {
  std::uint32_t half;
  std::memcpy(&half, static_cast<const char*>(base) + offset, sizeof half);
  return half;
}

// To the end of the thread's stack.
std::size_t stack_bytes_from(const void* pointer) noexcept {
  struct Stack {
    const char* begin = nullptr;
    const char* end = nullptr;
    Stack() noexcept {
      pthread_attr_t attributes;
      void* base = nullptr;
      std::size_t bytes = 0;
      if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
      if (pthread_attr_getstack(&attributes, &base, &bytes) == 0) {
        begin = static_cast<const char*>(base);
        end = begin + bytes;
      }
      pthread_attr_destroy(&attributes);
    }
  };
  static thread_local const Stack stack;
  const auto* at = static_cast<const char*>(pointer);
  return at >= stack.begin && at < stack.end ? static_cast<std::size_t>(stack.end - at) : 0;
}

// Calls visit(word) for each aligned word of memory whose size is not known, that with its first bytes too: a structure
// of 32-bit words may begin in the middle of one.
template <class Visit>
void visit_words(const void* argument, std::size_t bytes, Visit&& visit) {
  const std::size_t before = reinterpret_cast<std::uintptr_t>(argument) % sizeof(void*);
  const char* from = static_cast<const char*>(argument) - before;
  if (const std::size_t most = stack_bytes_from(from)) {
    const std::size_t in_frame = frame_bytes_from(from);
    each_word(from, std::min(bytes + before, in_frame != 0 ? in_frame : most), visit);
    return;
  }
  const auto copy = read_own_memory(from, bytes + before);
  each_word(reinterpret_cast<const char*>(copy.data()), copy.size(), visit);
}

// No two arguments share bytes: one reaches to the next at most.
std::size_t most_bytes(const void* argument, std::span<void* const> arguments) noexcept {
  std::size_t bytes = kMostParameterBytes;
  for (const void* other : arguments) {
    if (other > argument) {
      bytes = std::min<std::size_t>(bytes, static_cast<const char*>(other) - static_cast<const char*>(argument));
    }
  }
  return bytes;
}

// A closure begins with the offsets of as many elements as the launch has.
bool is_closure(const Parameter& parameter, void* const* arguments) {
  Dimensions dimensions;
  std::int32_t elements;
  std::memcpy(&elements, arguments[0], sizeof elements);
  return elements > 0 &&
         read_calculator(static_cast<const unsigned char*>(arguments[parameter.index]), parameter.count, dimensions) &&
         dimensions.elements() == static_cast<std::size_t>(elements);
}

// At the begin of a parameter, what its type tells: offsets, most of which are never set and may look like addresses, and
// operands.
std::size_t told_bytes(const Parameter& parameter, void* const* arguments) {
  if (parameter.how != How::Operands || (parameter.offset != 0 && !is_closure(parameter, arguments))) return 0;
  return parameter.offset + sizeof(void*) * parameter.count;
}

void add_pointer(const void* pointer, std::vector<const void*>& device, std::vector<const void*>& pinned) {
  (may_be_pinned(pointer) ? pinned : device).push_back(pointer);
}

void add_operands(const Parameter& parameter, const void* argument, Reached& reached) {
  for (std::uint16_t i = 0; i < parameter.count; ++i) {
    const void* operand = pointer_at(argument, parameter.offset + sizeof(void*) * i);
    if (i < parameter.outputs) add_pointer(operand, reached.written, reached.pinned);
    else if (may_be_managed(operand)) reached.host_inputs.push_back(operand);
    else reached.inputs.push_back(extent_of(operand));
  }
  reached.outputs = reached.written.size();
}

// The functor of an elementwise kernel may have pointers of its own, but not to the kernel's inputs.
void add_word(const void* pointer, Reached& reached) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const bool is_input = std::any_of(reached.inputs.begin(), reached.inputs.end(),
                                    [address](const Extent& input) { return input.holds(address); });
  if (!is_input) reached.written.push_back(pointer);
}

// Of two words beside each other, either may be the higher half of an address.
void add_pair(std::uint32_t first, std::uint32_t second, Reached& reached) {
  for (const auto& [low, high] : {std::pair(first, second), std::pair(second, first)}) {
    const auto* pointer = reinterpret_cast<const void*>(std::uintptr_t{high} << 32 | low);
    if (is_device_pointer(pointer)) add_word(pointer, reached);
  }
}

// What is looked at may be more than the argument, so that not any two halves are tried: those beside each other are, also
// where a word of two numbers looks like an address.
void add_words(const void* argument, std::size_t bytes, Reached& reached) {
  std::uint32_t last = 0;
  if (any_managed()) {
    visit_words(argument, bytes, [&](const void* word) {
      if (may_be_managed(word)) reached.pinned.push_back(word);
    });
  }
  visit_words(argument, bytes, [&](const void* word) {
    if (!reached.joins_halves) {
      if (is_device_pointer(word)) add_word(word, reached);
      return;
    }
    const auto value = reinterpret_cast<std::uint64_t>(word);
    const auto low = static_cast<std::uint32_t>(value), high = static_cast<std::uint32_t>(value >> 32);
    add_pair(last, low, reached);
    add_pair(low, high, reached);
    last = high;
  });
}

// False: it is not the list that its type promises.
bool add_list(const SizeReader& reader, const LaunchShape& shape, const void* argument, Reached& reached) {
  const auto tensors = listed_tensors(reader, shape, argument);
  auto& reaches = reader.kind == SizeReader::Kind::Concatenation ? reached.read : reached.written;
  for (const void* tensor : tensors) add_pointer(tensor, reaches, reached.pinned);
  return !tensors.empty();
}

// Whoever has made the tensors there: a reduction has no stale words at these places.
void add_results(const LaunchShape& shape, const void* argument, Reached& reached) {
  for (const void* result : reduction_results(shape, argument)) {
    if (may_be_pinned(result)) reached.pinned.push_back(result);
  }
}

// Byte by byte: a packed structure may hold a pointer anywhere. `has_tensors`: where none of the device lies, it is what
// the stack held.
void add_sized(const void* argument, std::size_t bytes, bool has_tensors, Reached& reached) {
  for (std::size_t offset = 0; offset + sizeof(void*) <= bytes; ++offset) {
    const void* pointer = pointer_at(argument, offset);
    if (is_device_pointer(pointer)) add_word(pointer, reached);
    else if (may_be_pinned(pointer) && !(has_tensors && has_host_tensors(pointer))) reached.pinned.push_back(pointer);
  }
  if (bytes == sizeof(void*) && is_device_pointer(pointer_at(argument, 0))) return;
  for (std::size_t offset = 0; offset + kHalfBytes <= bytes; offset += kHalfBytes)
    reached.halves.push_back(half_at(argument, offset));
}

// Addresses that the kernel gets as two words, wherever these are.
void join_halves(Reached& reached) {
  if (!reached.joins_halves) return;
  for (const std::uint32_t high : reached.halves) {
    const std::uintptr_t upper = std::uintptr_t{high} << 32;
    if (!is_device_pointer(reinterpret_cast<const void*>(upper)) || !is_in_use(upper, std::size_t{1} << 32)) continue;
    for (const std::uint32_t low : reached.halves) add_word(reinterpret_cast<const void*>(upper | low), reached);
  }
}

void add_parameters(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments, Reached& reached) {
  const std::span all(arguments, plan.count);
  for (const Parameter& parameter : plan.parameters) {
    if (told_bytes(parameter, arguments) != 0) add_operands(parameter, arguments[parameter.index], reached);
  }
  for (const Parameter& parameter : plan.parameters) {
    const std::size_t told = told_bytes(parameter, arguments);
    const void* argument = static_cast<const char*>(arguments[parameter.index]) + told;
    if (parameter.how == How::Reduction) add_results(shape, argument, reached);
    if (parameter.how == How::Written) add_pointer(pointer_at(argument, 0), reached.written, reached.pinned);
    else if (parameter.how == How::Pointers) reached.pointers.push_back(pointer_at(argument, 0));
    else if (parameter.how == How::Read) add_pointer(pointer_at(argument, 0), reached.read, reached.pinned_read);
    else if (parameter.how == How::List && add_list(parameter.list, shape, argument, reached)) continue;
    else if (parameter.bytes == 0) add_words(argument, most_bytes(argument, all), reached);
    else if (told < parameter.bytes) add_sized(argument, parameter.bytes - told, parameter.has_tensors, reached);
  }
  for (const std::uint16_t index : plan.halves) reached.halves.push_back(half_at(arguments[index], 0));
}

// Of a kernel of which nothing is known: as many arguments as there are addresses of memory one after the other. More
// than there are does no harm.
void add_unknown(void* const* arguments, Reached& reached) {
  constexpr std::size_t kMostParameters = 4096;
  std::vector<void*> all;
  const auto words = read_own_memory(arguments, kMostParameters * sizeof(void*));
  for (std::size_t at = 0; at + sizeof(void*) <= words.size(); at += sizeof(void*)) {
    void* argument = const_cast<void*>(pointer_at(words.data(), at));
    if (read_own_memory(argument, 1).empty()) break;
    all.push_back(argument);
  }
  for (const void* argument : all) add_words(argument, most_bytes(argument, all), reached);
}

// Good until the thread's next call.
Reached& look_through(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments, const LaunchForm& form) {
  static thread_local Reached reached;
  reached.clear();
  reached.joins_halves = !plan.is_pytorchs;
  if (form.packed != nullptr) add_sized(form.packed, form.packed_bytes, false, reached);
  else if (arguments != nullptr && plan.is_complete) add_parameters(plan, shape, arguments, reached);
  else if (arguments != nullptr) add_unknown(arguments, reached);
  return reached;
}

}  // namespace

std::vector<ManagedOperand> managed_arguments(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments,
                                              const LaunchForm& form) noexcept {
  const Reached& reached = look_through(plan, shape, arguments, form);
  std::vector<ManagedOperand> operands;
  for (const auto* pointers : {&reached.pinned, &reached.pinned_read, &reached.host_inputs}) {
    for (const void* pointer : *pointers) {
      if (may_be_managed(pointer)) operands.push_back({pointer, SIZE_MAX});
    }
  }
  return operands;
}

void forget_arguments(const ReachPlan& plan, const LaunchShape& shape, void* const* arguments,
                      const LaunchForm& form) noexcept {
  Reached& reached = look_through(plan, shape, arguments, form);
  join_halves(reached);
  // What else a functor has is a number that the kernel may write.
  if (plan.is_pytorchs && reached.outputs != 0 && reached.outputs < reached.written.size()) {
    keep_numbers(&reached.written[reached.outputs], (reached.written.size() - reached.outputs) * sizeof(void*));
  }
  add_variables(reached.written, reached.read);
  for (const void* pointers : reached.pointers) forget_pointed(pointers, 1);
  forget_pinned(reached.pinned, reached.pinned_read);
  forget_on_device(reached.written, reached.read, !plan.is_pytorchs);
}

}  // namespace ph
