#include "shim/values/values.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "shim/channel/rank.h"
#include "shim/core/addresses.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/graph/capture.h"
#include "shim/values/host_pages.h"
#include "shim/values/kept_addresses.h"
#include "shim/values/known_ranges.h"
#include "shim/values/large_uploads.h"
#include "shim/values/left_unknown.h"
#include "shim/values/value_queue.h"

namespace ph {

namespace {

// What the issuing threads know. Never destroyed: the program's static destructors still copy and free.
struct Issue {
  std::mutex mutex;
  KnownRanges expected;                   // holds every range that is known, and some that will turn out not to be
  KnownRanges written_later;              // host memory that queued operations write
  std::uint64_t host_writes = 0;          // how many there were
};

Issue& issue = *new Issue;
std::atomic<bool> anything_expected{false};
// Read back as zeros by operations that found their source unknown only when they ran.
std::atomic<std::uint64_t> late_synthetic_bytes{0};

// Called with the lock held.
void update_flag() noexcept { anything_expected.store(!issue.expected.empty(), std::memory_order_relaxed); }

constexpr std::size_t kMostNumberBytes = 8;
thread_local std::vector<unsigned char> promised;
thread_local bool promise_is_made_up = false;
thread_local bool stating_writes = false;
thread_local bool reading_unknown = false;

// Of what nobody knows any more: large uploads are elsewhere every time, and would stay in memory.
void give_pages_back(const void* pointer, std::size_t bytes) noexcept {
  constexpr std::uintptr_t kPageBytes = 4096;
  constexpr std::size_t kLeastBytes = 1u << 20;
  if (bytes < kLeastBytes || bytes > kDeviceSpanBytes) return;
  const auto begin = (reinterpret_cast<std::uintptr_t>(pointer) + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(pointer) + bytes) / kPageBytes * kPageBytes;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void enqueue_now(std::function<void()> operation, Touches touches) noexcept {
  const auto run = [operation = std::move(operation)] {
    operation();
    return true;
  };
  enqueue_value_operation(run, Needs::Nothing, std::move(touches));
}

// Of an integer of 8 bytes the first 4 are the number too (the machine's order).
bool is_promised(std::size_t bytes) noexcept {
  return bytes != 0 && (bytes == promised.size() || (promised.size() == 8 && bytes == 4));
}

// By the thread that reads, at a point that the program determines: the record stream stays reproducible.
void read_late_synthetic() noexcept {
  if (!is_driver()) return;
  const std::uint64_t synthetic_bytes = late_synthetic_bytes.exchange(0);
  if (synthetic_bytes != 0) record_synthetic(synthetic_bytes);
}

// Pinned memory is read in its turn on the stream: a function of the host that is queued before may write it.
bool is_written_later(const void* source, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(issue.mutex);
    if (issue.written_later.known_bytes(source, bytes) != 0) return true;
  }
  return may_be_pinned(source) && writes_are_queued(source, bytes);
}

// The program may free or reuse the source as soon as the call is over, so it is read now; unless a queued
// operation still has to write it.
void upload(void* destination, const void* source, std::size_t bytes) noexcept {
  const bool written_later = is_written_later(source, bytes);
  std::shared_ptr<unsigned char[]> staged;
  if (!written_later) {
    staged.reset(new unsigned char[bytes]);
    std::memcpy(staged.get(), source, bytes);
    keep_numbers(staged.get(), bytes);
  }
  expect_known(destination, bytes);
  enqueue_value(
      [=] {
        if (!staged) keep_numbers(source, bytes);
        std::memcpy(destination, staged ? staged.get() : source, bytes);
        known_now().add(destination, bytes);
      },
      {{source, staged ? 0 : bytes, false}, {destination, bytes, true}});
}

void download(void* destination, const void* source, std::size_t bytes) noexcept {
  if (is_promised(bytes)) {
    if (promise_is_made_up) record_synthetic(bytes);
    enqueue_host_write(destination, source, bytes,
                       [=, values = promised] { std::memcpy(destination, values.data(), bytes); });
    if (bytes == 1) promised.clear();
    return;
  }
  const bool may_be = may_be_known(source, bytes) && !(reading_unknown && bytes <= kMostNumberBytes);
  if (!may_be) record_synthetic(bytes);
  enqueue_host_write(destination, source, bytes, [=] {
    std::memset(destination, 0, bytes);
    if (!may_be) return;
    const auto base = reinterpret_cast<std::uintptr_t>(source);
    known_now().each_in(source, bytes, [=](std::uintptr_t from, std::size_t part) {
      std::memcpy(static_cast<char*>(destination) + (from - base), reinterpret_cast<const void*>(from), part);
    });
    late_synthetic_bytes.fetch_add(known_now().missing_bytes(source, bytes));
  });
}

// What is known at `source`, once it lies at `destination`.
KnownRanges moved_ranges(void* destination, const void* source, std::size_t bytes) {
  KnownRanges moved;
  const auto base = reinterpret_cast<std::uintptr_t>(source);
  const auto to = [destination, base](std::uintptr_t from) { return static_cast<char*>(destination) + (from - base); };
  known_now().each_in(source, bytes, [&](std::uintptr_t from, std::size_t part) { moved.add(to(from), part); });
  known_now().each_unwritten(source, bytes,
                             [&](std::uintptr_t from, std::size_t part) { moved.add_unwritten(to(from), part); });
  return moved;
}

void become_known(const KnownRanges& ranges, void* pointer, std::size_t bytes) {
  known_now().remove(pointer, bytes);
  const auto place = [](std::uintptr_t at) { return reinterpret_cast<const void*>(at); };
  ranges.each_in(pointer, bytes, [&](std::uintptr_t at, std::size_t part) { known_now().add(place(at), part); });
  ranges.each_unwritten(pointer, bytes,
                        [&](std::uintptr_t at, std::size_t part) { known_now().add_unwritten(place(at), part); });
}

void move_on_device(void* destination, const void* source, std::size_t bytes) noexcept {
  if (!may_be_known(source, bytes)) return mark_unknown(destination, bytes);
  expect_known(destination, bytes);
  enqueue_value(
      [=] {
        const KnownRanges moved = moved_ranges(destination, source, bytes);
        std::memmove(destination, source, bytes);
        become_known(moved, destination, bytes);
      },
      {{source, bytes, false}, {destination, bytes, true}});
}

// The known parts of a device's memory, to the same places of the destination.
void move_parts(void* destination, const void* source, std::size_t bytes, bool to_device) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(source);
  const auto to = [destination, base](std::uintptr_t from) { return static_cast<char*>(destination) + (from - base); };
  if (to_device) {
    mark_unknown(destination, bytes);
    each_expected(source, bytes, [&](std::uintptr_t from, std::size_t part) { expect_known(to(from), part); });
  }
  const auto move = [=] {
    const KnownRanges moved = moved_ranges(destination, source, bytes);
    if (!to_device && known_now().missing_bytes(source, bytes) != 0) clear_written(destination, bytes);
    known_now().each_in(source, bytes, [&](std::uintptr_t from, std::size_t part) {
      std::memmove(to(from), reinterpret_cast<const void*>(from), part);
    });
    if (to_device) become_known(moved, destination, bytes);
    else late_synthetic_bytes.fetch_add(known_now().missing_bytes(source, bytes));
  };
  if (to_device) enqueue_value(move, {{source, bytes, false}, {destination, bytes, true}});
  else enqueue_host_write(destination, source, bytes, move);
}

// Above the threshold: what the host has written, and what is known of it on the device, keeps its values.
void copy_large(void* destination, const void* source, std::size_t bytes) noexcept {
  const bool to_device = is_device_pointer(destination);
  if (!is_device_pointer(source)) {
    switch (look_at_upload(destination, source, bytes)) {
      case LargeUpload::Kept: return upload(destination, source, bytes);
      case LargeUpload::Forgotten: keep_numbers(source, bytes); [[fallthrough]];
      case LargeUpload::Empty: mark_unknown(destination, bytes);
    }
  } else if (may_be_known(source, bytes)) {
    note_large_use(source, bytes);
    move_parts(destination, source, bytes, to_device);
  } else if (to_device) {
    mark_unknown(destination, bytes);
  } else {
    record_synthetic(bytes);
    enqueue_host_write(destination, destination, bytes, [=] { clear_written(destination, bytes); });
  }
}

void fill_bytes(void* destination, unsigned value, std::size_t element_bytes, std::size_t count) noexcept {
  if (element_bytes == 1) {
    std::memset(destination, static_cast<int>(value), count);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<char*>(destination) + i * element_bytes, &value, element_bytes);
  }
}

}  // namespace

void record_synthetic(std::uint64_t bytes) noexcept {
  Record record{};
  record.kind = RecordKind::SyntheticRead;
  record.arg[SyntheticReadArg::Bytes] = bytes;
  emit(record, true);
}

void may_be_read(const void* pointer, std::size_t bytes) noexcept {
  Allocation allocation;
  const bool is_managed = find_allocation(pointer, allocation) && allocation.kind == MemoryKind::Managed;
  is_managed ? leave_unknown(pointer, bytes) : record_synthetic(bytes);
}

void promise_read(const void* values, std::size_t bytes, bool made_up) noexcept {
  const auto* first = static_cast<const unsigned char*>(values);
  promised.assign(first, first + bytes);
  promise_is_made_up = made_up;
}

bool read_unknown(bool unknown) noexcept { return std::exchange(reading_unknown, unknown); }

void state_writes(bool stated) noexcept { stating_writes = stated; }
bool writes_stated() noexcept { return stating_writes; }

// Of what a graph's launch will find, anything may be; so may managed memory, which the host writes without a call.
bool any_known() noexcept {
  return anything_expected.load(std::memory_order_relaxed) || any_managed() || call_is_captured();
}

void expect_known(const void* pointer, std::size_t bytes) noexcept {
  if (!attached() || bytes == 0) return;
  const std::lock_guard lock(issue.mutex);
  issue.expected.add(pointer, bytes);
  update_flag();
  note_known(pointer, bytes);
}

void mark_known(const void* pointer, std::size_t bytes) noexcept {
  if (!attached() || bytes == 0) return;
  expect_known(pointer, bytes);
  enqueue_value([=] { known_now().add(pointer, bytes); }, {{pointer, bytes, true}});
}

void mark_unwritten(const void* pointer, std::size_t bytes) noexcept {
  if (!attached() || bytes == 0 || call_is_captured()) return;
  expect_known(pointer, bytes);  // so that what is written there ends it
  enqueue_value([=] { known_now().add_unwritten(pointer, bytes); }, {{pointer, bytes, true}});
}

void mark_unknown(const void* pointer, std::size_t bytes) noexcept {
  if (!attached()) return;
  const bool is_pinned = may_be_pinned(pointer);
  if (!is_pinned && !any_known()) return;
  if (call_is_captured()) return capture_values([=] { mark_unknown(pointer, bytes); });
  if (is_pinned) return may_be_read(pointer, bytes);
  forget_freed(pointer, bytes);
}

void forget_freed(const void* pointer, std::size_t bytes) noexcept {
  note_large_end(pointer, bytes);
  if (!anything_expected.load(std::memory_order_relaxed) || !attached()) return;
  {
    const std::lock_guard lock(issue.mutex);
    if (!issue.expected.remove(pointer, bytes)) return;
    update_flag();
  }
  enqueue_now(
      [=] {
        known_now().remove(pointer, bytes);
        give_pages_back(pointer, bytes);
      },
      {{pointer, bytes, true}});
}

bool may_be_known(const void* pointer, std::size_t bytes) noexcept {
  if (!any_known()) return false;
  const std::lock_guard lock(issue.mutex);
  return issue.expected.known_bytes(pointer, bytes) != 0;
}

void each_expected(const void* pointer, std::size_t bytes,
                   const std::function<void(std::uintptr_t, std::size_t)>& visit) {
  std::vector<std::pair<std::uintptr_t, std::size_t>> parts;
  {
    const std::lock_guard lock(issue.mutex);
    issue.expected.each_in(pointer, bytes, [&](std::uintptr_t at, std::size_t part) { parts.emplace_back(at, part); });
  }
  for (const auto& [at, part] : parts) visit(at, part);
}

std::size_t known_bytes_from(const void* pointer) noexcept {
  const std::lock_guard lock(issue.mutex);
  return issue.expected.bytes_from(pointer);
}

bool is_known(const void* pointer, std::size_t bytes) noexcept {
  if (!is_device_pointer(pointer)) return true;
  const std::lock_guard lock(issue.mutex);
  return issue.expected.covers(pointer, bytes);
}

void enqueue_value(std::function<void()> operation, Touches touches) noexcept {
  if (!attached()) return;
  if (call_is_captured()) return capture_values([=] { enqueue_value(operation, touches); });
  enqueue_now(std::move(operation), std::move(touches));
}

void enqueue_exchange(std::function<bool()> operation, Touches touches) noexcept {
  if (!attached()) return;
  start_value_thread();
  enqueue_value_operation(std::move(operation), Needs::Peers, std::move(touches));
}

void enqueue_host_write(void* destination, const void* source, std::size_t bytes,
                        std::function<void()> operation) noexcept {
  if (!call_is_captured()) end_unknown(destination, bytes);
  queue_host_write(destination, source, bytes, std::move(operation));
}

void queue_host_write(void* destination, const void* source, std::size_t bytes,
                      std::function<void()> operation) noexcept {
  enqueue_value(std::move(operation), {{source, bytes, false}, {destination, bytes, true}});
  const std::lock_guard lock(issue.mutex);
  issue.written_later.add(destination, bytes);
  ++issue.host_writes;
}

void drain_values() noexcept {
  if (!attached()) return;
  std::uint64_t writes;
  {
    const std::lock_guard lock(issue.mutex);
    if (issue.written_later.empty()) return read_late_synthetic();
    writes = issue.host_writes;
  }
  await_host_writes();
  {
    const std::lock_guard lock(issue.mutex);
    if (issue.host_writes == writes) issue.written_later = {};
  }
  read_late_synthetic();
}

void copy_values(void* destination, const void* source, std::size_t bytes, bool synchronous) noexcept {
  if (!attached() || bytes == 0) return;
  if (call_is_captured()) return capture_values([=] { copy_values(destination, source, bytes, false); });
  const bool to_device = is_device_pointer(destination);
  const bool from_device = is_device_pointer(source);
  if (!to_device && !from_device) {
    enqueue_host_write(destination, source, bytes, [=] { std::memmove(destination, source, bytes); });
  } else if (bytes > config().value_bytes) {
    copy_large(destination, source, bytes);
  } else if (!from_device) {
    upload(destination, source, bytes);
  } else if (to_device) {
    move_on_device(destination, source, bytes);
  } else {
    download(destination, source, bytes);
  }
  if (synchronous) drain_values();
}

void fill_values(void* destination, unsigned value, std::size_t element_bytes, std::size_t count) noexcept {
  const std::size_t bytes = element_bytes * count;
  if (!attached() || bytes == 0) return;
  if (call_is_captured()) return capture_values([=] { fill_values(destination, value, element_bytes, count); });
  if (!is_device_pointer(destination)) {
    return enqueue_host_write(destination, destination, bytes,
                              [=] { fill_bytes(destination, value, element_bytes, count); });
  }
  if (bytes > config().value_bytes) return mark_unknown(destination, bytes);
  expect_known(destination, bytes);
  enqueue_value(
      [=] {
        fill_bytes(destination, value, element_bytes, count);
        known_now().add(destination, bytes);
      },
      {{destination, bytes, true}});
}

void release_values(const void* pointer, std::size_t bytes) noexcept {
  drop_addresses(pointer, bytes);
  if (!attached() || !may_be_known(pointer, bytes)) return;
  mark_unknown(pointer, bytes);
  await_values_of(pointer, bytes);
}

void allow_values(const void* pointer, std::size_t bytes, bool allowed) noexcept {
  if (!attached()) return;
  {
    const std::lock_guard lock(issue.mutex);
    issue.expected.allow(pointer, bytes, allowed);
    update_flag();
  }
  const auto run = [=] {
    known_now().allow(pointer, bytes, allowed);
    return true;
  };
  enqueue_value_operation(run, Needs::Nothing, {{pointer, bytes, true}});  // at once, also while a stream is captured
}

void finish_values() noexcept {
  // A collective that a peer never enters would hold up the end for ever, which it does not do on hardware. A peer
  // that comes later than this goes without values (assumed: none does).
  constexpr Nanoseconds kPatienceNs = 5'000'000'000;
  if (attached()) await_all_values(kPatienceNs);
}

}  // namespace ph
