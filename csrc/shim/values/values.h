// True values of small tensors, in program order.
//
// Kernels do not run, so device memory has no meaning of its own; but programs read sizes, flags and
// object-collective payloads back. What a rule produces (small copies, fills, small collectives, a few
// recognised kernels) is *known*. Two sets of byte ranges say what is: one is kept at issue and holds what *may*
// be known, so that a launch costs one look-up; the true one moves along with the value operations themselves
// (value_queue.h), because a small collective learns from its peers whether its result is known, and the rank
// runs ahead meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "shim/core/api.h"

namespace ph {

PH_EXPORT void mark_known(const void* pointer, std::size_t bytes) noexcept;
// Of pinned memory, which the host reads without a call, it counts as read back.
PH_EXPORT void mark_unknown(const void* pointer, std::size_t bytes) noexcept;
// New memory that the program has not written and may never look at: reads of it are not counted.
PH_EXPORT void mark_unwritten(const void* pointer, std::size_t bytes) noexcept;
// What a call that nobody carries out may have written: the blocks (values/extents.h) that `written` points into, and those
// that are pointed to out of them or out of the blocks of `read`. Null pointers are allowed, and host memory, which nothing
// is done about. `keeps`: a launch that may keep the addresses that it gets, and use those that others have kept
// (values/kept_addresses.h).
PH_EXPORT void forget_on_device(std::span<const void* const> written, std::span<const void* const> read = {},
                                bool keeps = false) noexcept;
// The same of a library's call: what of `written` is pinned memory counts as read back.
PH_EXPORT void forget_reached(std::span<const void* const> written) noexcept;
PH_EXPORT void forget_reached(std::initializer_list<const void*> written) noexcept;
// What pointers lead to that lie in pinned host memory, from `written` and `read` on. The host may find anything where it
// is written: that counts as read back.
PH_EXPORT void forget_pinned(std::span<const void* const> written, std::span<const void* const> read) noexcept;
// What `count` pointers at `pointers`, in host or device memory, point into; anything, where they are not known.
PH_EXPORT void forget_pointed(const void* pointers, std::size_t count) noexcept;
// Memory that the program's allocator has taken back: at once, also while this thread captures a graph.
PH_EXPORT void forget_freed(const void* pointer, std::size_t bytes) noexcept;
PH_EXPORT bool any_known() noexcept;  // cheap test for the launch path
// May be known, as far as the issuing thread can tell; always true for host memory.
PH_EXPORT bool is_known(const void* pointer, std::size_t bytes) noexcept;
PH_EXPORT bool may_be_known(const void* pointer, std::size_t bytes) noexcept;  // some of it
// Calls visit(begin, bytes) for each part that may be known.
PH_EXPORT void each_expected(const void* pointer, std::size_t bytes,
                             const std::function<void(std::uintptr_t, std::size_t)>& visit);
// From `pointer` to the end of the range that may be known there; 0: none.
PH_EXPORT std::size_t known_bytes_from(const void* pointer) noexcept;
// While a thread states itself what is known of all that its kernels write, they forget nothing.
PH_EXPORT void state_writes(bool stated) noexcept;
PH_EXPORT bool writes_stated() noexcept;
// An operation that the caller enqueues next will decide whether these bytes are known.
PH_EXPORT void expect_known(const void* pointer, std::size_t bytes) noexcept;

// Memory that an operation reads or writes, known or not. None at all: it may touch anything.
struct Touch {
  const void* pointer;
  std::size_t bytes;
  bool writes;
};
using Touches = std::vector<Touch>;

// Runs `operation` after the value operations before it: at once where nothing is queued, else on the value
// thread. `enqueue_exchange` is for one that waits for peers; see value_queue.h for what it returns. Operations must
// not call functions of this header; they use known_now() of value_queue.h.
PH_EXPORT void enqueue_value(std::function<void()> operation, Touches touches) noexcept;
PH_EXPORT void enqueue_exchange(std::function<bool()> operation, Touches touches) noexcept;
// Of one that writes host memory. `source`: what it reads; may be the destination itself. It is noted only once it is
// queued: another thread that drains the queue in between would take it for done.
PH_EXPORT void enqueue_host_write(void* destination, const void* source, std::size_t bytes,
                                  std::function<void()> operation) noexcept;
// The same of one that leaves nothing known there.
void queue_host_write(void* destination, const void* source, std::size_t bytes,
                      std::function<void()> operation) noexcept;
// Until every value operation issued so far that writes host memory is done. Called before the host reads.
// Call it after the wait for virtual time: then all peers have issued what the operations wait for.
PH_EXPORT void drain_values() noexcept;

// A copy with its rules: known and small moves bytes; device to host of unknown bytes gives zeros and a
// SyntheticRead record. `synchronous`: the caller reads the destination right afterwards. The source of a
// host-to-device copy is read at issue. Above the threshold uploads are kept as large_uploads.h says, and otherwise the
// known bytes alone move; in place of the others the host finds zeros, but memory that it has never touched stays so.
PH_EXPORT void copy_values(void* destination, const void* source, std::size_t bytes, bool synchronous) noexcept;
// Copies of so many bytes (of 8 also their first 4) to the host by this thread find `values`, until none are promised; a
// flag, of one byte, is found once, as the next one that is read says something else. `made_up`: each such copy is told
// as one of an unknown value.
PH_EXPORT void promise_read(const void* values, std::size_t bytes, bool made_up) noexcept;
// Whether copies of at most 8 bytes to the host by this thread find what nobody knows, unless it is promised: sizes of
// results that kernels write of which the caller states what they write. Returns what was said before.
PH_EXPORT bool read_unknown(bool unknown) noexcept;
// The program gets values that no rule produced; the report counts them by Python line.
PH_EXPORT void record_synthetic(std::uint64_t bytes) noexcept;
// Pinned or managed memory that nobody knows from now on: the host may read it without a call.
void may_be_read(const void* pointer, std::size_t bytes) noexcept;
// `value` repeated over `count` elements of `element_bytes` (1, 2 or 4), as the memset calls give it.
PH_EXPORT void fill_values(void* destination, unsigned value, std::size_t element_bytes, std::size_t count) noexcept;

// Before device memory is freed: waits for operations that may use it, then nothing in it is known.
PH_EXPORT void release_values(const void* pointer, std::size_t bytes) noexcept;
// Memory that the program reaches at several addresses: nothing in it is ever known, until that is allowed again.
PH_EXPORT void allow_values(const void* pointer, std::size_t bytes, bool allowed) noexcept;
// At the rank's end: until all operations are done, so that peers have what they need, or nothing moves any more.
PH_EXPORT void finish_values() noexcept;

}  // namespace ph
