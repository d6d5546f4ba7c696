#include "shim/values/assertions.h"

#include <atomic>
#include <cstring>
#include <string>

#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/values/element_functions.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

constexpr std::string_view kKernel = "at::native::_assert_async_cuda_kernel";
// Of at::native::Msg. Source: PyTorch, aten/src/ATen/native/cuda/TensorCompare.cu.
constexpr std::size_t kTextBytes = 256;

std::atomic<bool> failed{false};

void fail(const std::string& text) noexcept {
  failed.store(true, std::memory_order_relaxed);
  const std::string line = "phantora: rank " + std::to_string(global_rank()) +
                           ": an assertion of the program on its GPU has failed: " + text + "\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

AssertionRule parse_assertion(std::string_view name) {
  if (name.find(kKernel) == std::string_view::npos) return {};
  constexpr std::string_view kComplex = "(c10::complex<";
  if (const auto found = name.find(kComplex); found != std::string_view::npos) {
    const std::string_view part = name.substr(found + kComplex.size());
    return {scalar_named(part.substr(0, part.find('>'))), 2};
  }
  const auto arguments = template_arguments(name);
  if (arguments.size() != 1) return {};
  return {scalar_named(arguments[0]), 1};
}

bool apply_assertion(const AssertionRule& rule, void* const* arguments) noexcept {
  const unsigned char* value;
  std::memcpy(&value, arguments[0], sizeof value);
  const std::size_t bytes = rule.parts * size_of(rule.type);
  if (!is_device_pointer(value) || !is_known(value, bytes)) return false;
  const auto* text = static_cast<const char*>(arguments[1]);
  enqueue_value(
      [rule, value, bytes, text = std::string(text, strnlen(text, kTextBytes))] {
        if (!known_now().covers(value, bytes)) return;
        bool holds = false;
        for (std::size_t part = 0; part < rule.parts; ++part) {
          holds = holds || load(rule.type, value + part * size_of(rule.type)).is_true();
        }
        if (!holds) fail(text.empty() ? "torch._assert_async" : text);
      },
      {{value, bytes, false}});
  return true;
}

bool assertion_failed() noexcept { return failed.load(std::memory_order_relaxed); }

}  // namespace ph
