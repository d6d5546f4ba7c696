// Values of whole tensors, for operations that PyTorch carries out on the CPU beside the GPU's kernels
// (phantora_py/rank/small_operations.py, which calls these through ctypes).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/values/kept_addresses.h"
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

// In one piece, without gaps, and in row-major order.
bool is_contiguous(const Strided& tensor) {
  std::size_t step = 1;
  for (std::size_t d = tensor.sizes.size(); d-- > 0;) {
    if (tensor.sizes[d] != 1 && tensor.strides[d] != step) return false;
    step *= tensor.sizes[d];
  }
  return true;
}

// Calls visit(offset) with each element's offset in bytes, in row-major order, until it returns false. False: it did.
template <class Visit>
bool each_element(const Strided& tensor, Visit&& visit) {
  std::size_t elements = 1;
  for (const std::size_t size : tensor.sizes) elements *= size;
  for (std::size_t e = 0; e < elements; ++e) {
    std::size_t offset = 0;
    for (std::size_t d = tensor.sizes.size(), rest = e; d-- > 0; rest /= tensor.sizes[d]) {
      offset += rest % tensor.sizes[d] * tensor.strides[d];
    }
    if (!visit(offset * tensor.element_bytes)) return false;
  }
  return true;
}

// One element after the other to `to`. False: one of them is not known.
bool gather(const Strided& tensor, unsigned char* to) {
  std::size_t elements = 1;
  for (const std::size_t size : tensor.sizes) elements *= size;
  const std::size_t bytes = tensor.element_bytes;
  if (is_contiguous(tensor)) {
    if (!ph::known_now().covers(tensor.data, elements * bytes)) return false;
    std::memcpy(to, tensor.data, elements * bytes);
    return true;
  }
  return each_element(tensor, [&tensor, &to, bytes](std::size_t offset) {
    if (!ph::known_now().covers(tensor.data + offset, bytes)) return false;
    std::memcpy(to, tensor.data + offset, bytes);
    to += bytes;
    return true;
  });
}

// The elements that are known, each to its place at `to`. False: none is.
bool gather_known(const Strided& tensor, unsigned char* to) {
  const std::size_t extent = tensor.extent_bytes();
  if (ph::known_now().known_bytes(tensor.data, extent) == 0) return false;
  if (is_contiguous(tensor)) {
    ph::known_now().each_in(tensor.data, extent, [&tensor, to](std::uintptr_t begin, std::size_t bytes) {
      const auto* from = reinterpret_cast<const unsigned char*>(begin);
      std::memcpy(to + (from - tensor.data), from, bytes);
    });
    return true;
  }
  each_element(tensor, [&tensor, &to](std::size_t offset) {
    if (ph::known_now().covers(tensor.data + offset, tensor.element_bytes)) {
      std::memcpy(to, tensor.data + offset, tensor.element_bytes);
    }
    to += tensor.element_bytes;
    return true;
  });
  return true;
}

// False: not a tensor with elements that can be reached.
bool make_strided(const void* data, std::uint64_t element_bytes, std::uint64_t dimensions, const std::int64_t* sizes,
                  const std::int64_t* strides, Strided& tensor) {
  tensor = {static_cast<const unsigned char*>(data), element_bytes, {}, {}};
  for (std::uint64_t d = 0; d < dimensions; ++d) {
    if (sizes[d] <= 0 || strides[d] < 0) return false;
    tensor.sizes.push_back(static_cast<std::size_t>(sizes[d]));
    tensor.strides.push_back(static_cast<std::size_t>(strides[d]));
  }
  return true;
}

}  // namespace

extern "C" {

PH_EXPORT std::uint64_t ph_value_bytes() noexcept { return ph::config().value_bytes; }

// The elements in row-major order to `to`. 0: not all are known. If what the tensor depends on waits for peers, so does
// the caller.
PH_EXPORT int ph_read_values(const void* data, std::uint64_t element_bytes, std::uint64_t dimensions,
                             const std::int64_t* sizes, const std::int64_t* strides, void* to) noexcept {
  Strided tensor;
  if (!make_strided(data, element_bytes, dimensions, sizes, strides, tensor)) return 0;
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

// The same of the elements that are known; what is at `to` for the others stays there. 0: none is known.
PH_EXPORT int ph_read_known_values(const void* data, std::uint64_t element_bytes, std::uint64_t dimensions,
                                   const std::int64_t* sizes, const std::int64_t* strides, void* to) noexcept {
  Strided tensor;
  if (!make_strided(data, element_bytes, dimensions, sizes, strides, tensor)) return 0;
  const std::size_t extent = tensor.extent_bytes();
  if (!ph::may_be_known(data, extent)) return 0;
  bool known = false;
  ph::enqueue_value([&] { known = gather_known(tensor, static_cast<unsigned char*>(to)); }, {{data, extent, false}});
  ph::await_values_of(data, extent);
  return known ? 1 : 0;
}

// As if a kernel had written them now: `values` in row-major order. `chosen` has a byte for each element, of which those
// with a zero stay as they are; nullptr: all are written.
PH_EXPORT void ph_write_values(void* data, std::uint64_t element_bytes, std::uint64_t dimensions,
                               const std::int64_t* sizes, const std::int64_t* strides, const void* values,
                               const unsigned char* chosen) noexcept {
  Strided tensor;
  if (!ph::attached() || !make_strided(data, element_bytes, dimensions, sizes, strides, tensor)) return;
  std::size_t bytes = element_bytes;
  for (const std::size_t size : tensor.sizes) bytes *= size;
  const auto* first = static_cast<const unsigned char*>(values);
  std::vector<unsigned char> kept(first, first + bytes);
  ph::keep_numbers(kept.data(), bytes);
  const std::size_t extent = tensor.extent_bytes();
  const bool is_dense = extent == bytes && chosen == nullptr;
  std::vector<bool> is_chosen(bytes / element_bytes, true);
  if (chosen != nullptr) is_chosen.assign(chosen, chosen + is_chosen.size());
  if (is_dense) {
    ph::expect_known(data, bytes);
  } else {
    each_element(tensor, [data, element_bytes, &is_chosen, element = std::size_t{0}](std::size_t offset) mutable {
      if (is_chosen[element++]) ph::expect_known(static_cast<unsigned char*>(data) + offset, element_bytes);
      return true;
    });
  }
  const auto write = [data, is_dense, tensor = std::move(tensor), kept = std::move(kept),
                      is_chosen = std::move(is_chosen)] {
    auto* to = static_cast<unsigned char*>(data);
    if (is_dense) ph::known_now().add(to, kept.size());
    const unsigned char* from = kept.data();
    each_element(tensor, [&, element = std::size_t{0}](std::size_t offset) mutable {
      if (is_chosen[element++]) {
        std::memcpy(to + offset, from, tensor.element_bytes);
        if (!is_dense) ph::known_now().add(to + offset, tensor.element_bytes);
      }
      from += tensor.element_bytes;
      return true;
    });
  };
  if (ph::is_device_pointer(data)) ph::enqueue_value(write, {{data, extent, true}});
  else ph::enqueue_host_write(data, data, extent, write);  // pinned
}

// Whether the first byte may be known: a quick no.
PH_EXPORT int ph_may_be_known(const void* data) noexcept { return ph::any_known() && ph::is_known(data, 1) ? 1 : 0; }

// The same of any byte.
PH_EXPORT int ph_any_may_be_known(const void* data, std::uint64_t bytes) noexcept {
  return ph::any_known() && ph::may_be_known(data, bytes) ? 1 : 0;
}

// Returns what was said before.
PH_EXPORT int ph_state_writes(int stated) noexcept {
  const int before = ph::writes_stated() ? 1 : 0;
  ph::state_writes(stated != 0);
  return before;
}
PH_EXPORT void ph_mark_unknown(const void* data, std::uint64_t bytes) noexcept { ph::mark_unknown(data, bytes); }
PH_EXPORT void ph_mark_unwritten(const void* data, std::uint64_t bytes) noexcept { ph::mark_unwritten(data, bytes); }

// `made_up`: 0 or 1.
PH_EXPORT void ph_promise_read(const void* values, std::uint64_t bytes, int made_up) noexcept {
  ph::promise_read(values, bytes, made_up != 0);
}

// Returns what was said before.
PH_EXPORT int ph_read_unknown(int unknown) noexcept { return ph::read_unknown(unknown != 0) ? 1 : 0; }

// Values that no rule produced were made up, and the program may read them.
PH_EXPORT void ph_note_made_up(std::uint64_t bytes) noexcept { ph::record_synthetic(bytes); }

}  // extern "C"
