// Values of whole tensors, for operations that PyTorch carries out on the CPU beside the GPU's kernels
// (phantora_py/rank/small_operations.py, which calls these through ctypes).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "shim/core/config.h"
#include "shim/core/rank.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace {

// A tensor on the device; strides in elements, none negative.
struct Strided {
  const unsigned char* data;
  std::size_t element_bytes;
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> strides;

  // From the first byte to the last.
  std::size_t extent_bytes() const noexcept {
    std::size_t elements = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) elements += (sizes[d] - 1) * strides[d];
    return elements * element_bytes;
  }
};

// One element after the other to `to`. False: one of them is not known.
bool gather(const Strided& tensor, unsigned char* to) {
  std::size_t elements = 1;
  for (const std::size_t size : tensor.sizes) elements *= size;
  const std::size_t bytes = tensor.element_bytes;
  if (tensor.extent_bytes() == elements * bytes && std::is_sorted(tensor.strides.rbegin(), tensor.strides.rend())) {
    if (!ph::known_now().covers(tensor.data, elements * bytes)) return false;
    std::memcpy(to, tensor.data, elements * bytes);
    return true;
  }
  for (std::size_t e = 0; e < elements; ++e) {
    std::size_t offset = 0;
    for (std::size_t d = tensor.sizes.size(), rest = e; d-- > 0; rest /= tensor.sizes[d]) {
      offset += rest % tensor.sizes[d] * tensor.strides[d];
    }
    const unsigned char* from = tensor.data + offset * bytes;
    if (!ph::known_now().covers(from, bytes)) return false;
    std::memcpy(to + e * bytes, from, bytes);
  }
  return true;
}

}  // namespace

extern "C" {

PH_EXPORT std::uint64_t ph_value_bytes() noexcept { return ph::config().value_bytes; }

// The elements in row-major order to `to`. 0: not all are known. What the tensor hangs on may wait for peers, and then
// so does the caller.
PH_EXPORT int ph_read_values(const void* data, std::uint64_t element_bytes, std::uint64_t dimensions,
                             const std::int64_t* sizes, const std::int64_t* strides, void* to) noexcept {
  Strided tensor{static_cast<const unsigned char*>(data), element_bytes, {}, {}};
  for (std::uint64_t d = 0; d < dimensions; ++d) {
    if (sizes[d] <= 0 || strides[d] < 0) return 0;
    tensor.sizes.push_back(static_cast<std::size_t>(sizes[d]));
    tensor.strides.push_back(static_cast<std::size_t>(strides[d]));
  }
  // The last element too, for where the first one is known alone.
  const std::size_t extent = tensor.extent_bytes();
  if (!ph::is_known(data, element_bytes) || !ph::is_known(tensor.data + extent - element_bytes, element_bytes)) {
    return 0;
  }
  bool known = false;
  ph::enqueue_value([&] { known = gather(tensor, static_cast<unsigned char*>(to)); }, {{data, extent, false}});
  ph::await_values_of(data, extent);
  return known ? 1 : 0;
}

// A contiguous tensor's, as if a kernel had written them now.
PH_EXPORT void ph_write_values(void* data, const void* values, std::uint64_t bytes) noexcept {
  if (bytes == 0 || !ph::attached()) return;
  std::vector<unsigned char> kept(static_cast<const unsigned char*>(values),
                                  static_cast<const unsigned char*>(values) + bytes);
  ph::expect_known(data, bytes);
  ph::enqueue_value(
      [data, kept = std::move(kept)] {
        std::memcpy(data, kept.data(), kept.size());
        ph::known_now().add(data, kept.size());
      },
      {{data, bytes, true}});
}

// Returns what was said before.
PH_EXPORT int ph_state_writes(int stated) noexcept {
  const int before = ph::writes_stated() ? 1 : 0;
  ph::state_writes(stated != 0);
  return before;
}
PH_EXPORT void ph_mark_unknown(const void* data, std::uint64_t bytes) noexcept { ph::mark_unknown(data, bytes); }

// The next copy of so many bytes to the host by this thread finds these.
PH_EXPORT void ph_promise_read(const void* values, std::uint64_t bytes) noexcept { ph::promise_read(values, bytes); }

// Values that no rule produced were made up, and the program may read them.
PH_EXPORT void ph_note_made_up(std::uint64_t bytes) noexcept { ph::record_synthetic(bytes); }

}  // extern "C"
