// What a launch or a library call may have written is no longer known.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "shim/core/device.h"
#include "shim/core/own_memory.h"
#include "shim/graph/capture.h"
#include "shim/values/extents.h"
#include "shim/values/kept_addresses.h"
#include "shim/values/left_unknown.h"
#include "shim/values/packed_addresses.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

using Extents = std::vector<Extent>;

// Arrays of pointers and structures in pinned host memory are not larger; assumed.
constexpr std::size_t kMostPinnedBytes = 64u << 10;

void add(Extents& extents, const Extent& extent) {
  if (extent.empty()) return;
  const auto is_there = [&extent](const Extent& one) { return one.begin <= extent.begin && extent.end <= one.end; };
  if (std::none_of(extents.begin(), extents.end(), is_there)) extents.push_back(extent);
}

Extents extents_of(std::span<const void* const> pointers) {
  Extents extents;
  for (const void* pointer : pointers) add(extents, extent_of(pointer));
  return extents;
}

// Adds to `written` what pointers in known memory lead to, from all that the call reaches. `each_part` visits the known
// parts of an extent. `packed`: they may be at any byte, which no kernel of PyTorch's or of a library has.
template <class EachPart>
void follow(Extents& written, const Extents& read, bool packed, EachPart&& each_part) {
  const auto look_into = [&](const Extent& extent) {
    each_part(extent, [&](std::uintptr_t begin, std::size_t bytes) {
      const auto* from = reinterpret_cast<const char*>(begin);
      const auto add_block = [&](const void* pointer) { add(written, extent_of(pointer)); };
      if (packed) each_packed_pointer(from, bytes, add_block);
      else each_device_pointer(from, bytes, add_block);
    });
  };
  for (const Extent& extent : read) look_into(extent);
  for (std::size_t i = 0; i < written.size(); ++i) look_into(Extent(written[i]));
}

void each_known_now(const Extent& extent, const std::function<void(std::uintptr_t, std::size_t)>& visit) {
  known_now().each_in(extent.pointer(), extent.bytes(), visit);
}

// What is not in place yet depends on peers; then the memory is looked at when all before has been done.
bool is_pending(const Extents& extents) noexcept {
  return std::any_of(extents.begin(), extents.end(), [](const Extent& extent) {
    return may_be_known(extent.pointer(), extent.bytes()) && writes_are_queued(extent.pointer(), extent.bytes());
  });
}

// `keeps`: a launch that may use addresses that an earlier one has kept, and keeps its own.
void forget(Extents written, const Extents& read, bool keeps) noexcept {
  if (keeps) {
    for (const Extent& extent : take_known_of_kept()) add(written, extent);
  }
  if (is_pending(written) || is_pending(read)) {
    enqueue_value(
        [written, read, keeps] {
          Extents all = written;
          follow(all, read, keeps, each_known_now);
          for (const Extent& extent : all) known_now().remove(extent.pointer(), extent.bytes());
          if (keeps) keep_addresses(all);
        },
        {});
    return;
  }
  follow(written, read, keeps,
         [](const Extent& extent, const auto& visit) { each_expected(extent.pointer(), extent.bytes(), visit); });
  for (const Extent& extent : written) mark_unknown(extent.pointer(), extent.bytes());
  if (keeps) keep_addresses(written);
}

}  // namespace

// A captured call's blocks are those of now: the program may have given them back when the graph is launched.
void forget_on_device(std::span<const void* const> written, std::span<const void* const> read, bool keeps) noexcept {
  if (!any_known() && !keeps) return;
  Extents to = extents_of(written);
  Extents from = extents_of(read);
  if (to.empty() && from.empty() && !keeps) return;
  if (call_is_captured()) return capture_values([to, from, keeps] { forget(to, from, keeps); });
  forget(std::move(to), from, keeps);
}

void forget_reached(std::span<const void* const> written) noexcept {
  if (any_pinned()) {
    std::vector<const void*> on_host;
    std::copy_if(written.begin(), written.end(), std::back_inserter(on_host), may_be_pinned);
    forget_pinned(on_host, {});
  }
  forget_on_device(written);
}

void forget_reached(std::initializer_list<const void*> written) noexcept {
  forget_reached(std::span(written.begin(), written.size()));
}

void forget_pinned(std::span<const void* const> written, std::span<const void* const> read) noexcept {
  if (written.empty() && read.empty()) return;
  if (call_is_captured()) {
    const std::vector<const void*> to(written.begin(), written.end());
    const std::vector<const void*> from(read.begin(), read.end());
    return capture_values([to, from] { forget_pinned(to, from); });
  }
  std::vector<const void*> reached;
  std::size_t written_bytes = 0;  // by one launch, whatever of its parameters say so
  const auto look_into = [&](const void* pointer, bool writes) {
    Allocation allocation;
    if (!find_allocation(pointer, allocation) || allocation.device >= 0) return;
    const std::size_t bytes = allocation.base + allocation.bytes - reinterpret_cast<std::uintptr_t>(pointer);
    const auto words = read_own_memory(pointer, known_before(pointer, std::min(bytes, kMostPinnedBytes)));
    each_packed_pointer(reinterpret_cast<const char*>(words.data()), words.size(),
                        [&reached](const void* inner) { reached.push_back(inner); });
    if (!writes) return;
    if (allocation.kind == MemoryKind::Managed) return leave_unknown(pointer, bytes);
    written_bytes = std::max(written_bytes, bytes);
  };
  for (const void* pointer : written) look_into(pointer, true);
  for (const void* pointer : read) look_into(pointer, false);
  if (written_bytes != 0) record_synthetic(written_bytes);
  forget_on_device(reached);
}

void forget_pointed(const void* pointers, std::size_t count) noexcept {
  if ((!any_known() && !any_pinned()) || pointers == nullptr || count == 0) return;
  if (!is_device_pointer(pointers)) {
    forget_reached({static_cast<const void* const*>(pointers), count});
  } else if (call_is_captured()) {
    capture_values([=] { forget_pointed(pointers, count); });
  } else if (is_known(pointers, count * sizeof(void*))) {
    forget_on_device({}, {&pointers, 1});
  } else {
    mark_unknown(nullptr, ~std::size_t{0});
  }
}

}  // namespace ph
