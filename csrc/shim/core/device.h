// Model state of the simulated GPUs of one rank: memory, streams, events, current device.
//
// Memory is in memory/memory.cc; streams and events are in streams/streams.cc; the queue is in waiting/launch_queue.cc.
// Handles are an index and a generation, so that use after destroy is an error and never another object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "protocol/records.h"
#include "shim/core/api.h"

namespace ph {

PH_EXPORT int current_device() noexcept;  // of the calling thread
PH_EXPORT bool set_current_device(int device) noexcept;  // false: no such device

// ---- memory --------------------------------------------------------------------------------------------
// Device memory is a reserved range of host addresses, one range per device; a page costs nothing until touched.

enum class Access : std::uint8_t { None, Read, ReadWrite };

struct Allocation {
  std::uintptr_t base;
  std::size_t bytes;
  int device;  // -1 for pinned and managed memory, which is the host's
  MemoryKind kind;
  bool mapped = false;  // by the program itself, through the driver's virtual memory calls
  Access access = Access::ReadWrite;  // of the device that may do most
  bool has_host_tensors = false;  // pinned by PyTorch, and no tensor of the device lies there
};

PH_EXPORT void* allocate_device(int device, std::size_t bytes) noexcept;  // nullptr: out of memory, recorded
PH_EXPORT bool free_device(void* pointer) noexcept;  // false: not an allocation's base
// `caller`: where the program's call returns to; it tells what PyTorch pins for tensors of the host.
PH_EXPORT void* allocate_pinned(std::size_t bytes, const void* caller = nullptr) noexcept;
PH_EXPORT bool free_pinned(void* pointer) noexcept;
PH_EXPORT bool register_pinned(void* pointer, std::size_t bytes) noexcept;
PH_EXPORT bool unregister_pinned(void* pointer) noexcept;
// Managed memory is pinned memory to whoever reads or writes it (memory/managed.h has where its pages are).
bool add_managed(void* pointer, std::size_t bytes) noexcept;
bool remove_managed(void* pointer) noexcept;
// The allocation that holds `pointer`; false for ordinary host memory.
PH_EXPORT bool find_allocation(const void* pointer, Allocation& out) noexcept;
PH_EXPORT bool is_device_pointer(const void* pointer) noexcept;  // a range check, for hot paths
// All addresses of device memory that the program has had until now lie there.
struct DeviceAddresses {
  std::uintptr_t begin;
  std::uintptr_t end;
};
PH_EXPORT DeviceAddresses device_addresses() noexcept;
PH_EXPORT bool is_in_use(std::uintptr_t begin, std::size_t bytes) noexcept;  // whether some allocation lies there
PH_EXPORT bool any_pinned() noexcept;  // or was
PH_EXPORT bool any_managed() noexcept;  // likewise
// False: no pinned host memory is there. A range check too.
PH_EXPORT bool may_be_pinned(const void* pointer) noexcept;
// Whether only tensors of the host lie there: no kernel of PyTorch's is given such memory.
PH_EXPORT bool has_host_tensors(const void* pointer) noexcept;
// The program makes a tensor of the device there, or asks for the device's address of it.
PH_EXPORT void show_to_device(const void* pointer) noexcept;
// What copies and fills may read and write: host memory; device memory that lies in one allocation or in mappings side
// by side (expandable segments of PyTorch's allocator are such) which the program has made accessible.
PH_EXPORT bool is_readable(const void* pointer, std::size_t bytes) noexcept;
PH_EXPORT bool is_writable(const void* pointer, std::size_t bytes) noexcept;
// Memory that a library or the context takes beside the program's own; counted, not backed.
PH_EXPORT bool take_memory(int device, std::size_t bytes, MemoryKind kind) noexcept;
PH_EXPORT void give_memory(int device, std::size_t bytes, MemoryKind kind) noexcept;
PH_EXPORT void memory_info(int device, std::size_t& free_bytes, std::size_t& total_bytes) noexcept;
// Addresses out of a device's range that are no memory yet; false: they are not free, or the device has no context.
PH_EXPORT bool take_range(std::uintptr_t base, std::size_t bytes) noexcept;
PH_EXPORT bool give_range(std::uintptr_t base, std::size_t bytes) noexcept;  // false: they are in no device's range
// Makes reserved addresses (see virtual_memory.cc of the driver) look like an allocation, which nobody may use yet;
// counts nothing.
PH_EXPORT void add_mapping(void* pointer, std::size_t bytes, int device) noexcept;
PH_EXPORT void set_mapping_access(void* pointer, Access access) noexcept;
PH_EXPORT void remove_mapping(void* pointer) noexcept;
// The primary context: taken on first use of a device.
PH_EXPORT void ensure_context(int device) noexcept;
// Likewise where a program only says which device it is going to use, which makes no process a rank.
PH_EXPORT void choose_context(int device) noexcept;
PH_EXPORT bool has_context(int device) noexcept;
// It goes, with every allocation on the device. Stay: what the program maps itself and what libraries have taken.
PH_EXPORT void release_context(int device) noexcept;

// ---- streams and events --------------------------------------------------------------------------------

struct StreamRef {
  std::uint32_t id = 0;  // stream id in the rank, 0: legacy default stream
  std::uint16_t device = 0;
  bool valid = false;
  bool non_blocking = false;
  int priority = 0;
};

// `handle` as cudaStream_t / CUstream: null and cudaStreamLegacy are the legacy default stream of the current
// device; cudaStreamPerThread a blocking stream of the calling thread.
PH_EXPORT StreamRef resolve_stream(const void* handle) noexcept;
PH_EXPORT void* create_stream(int device, bool non_blocking, int priority) noexcept;
PH_EXPORT bool destroy_stream(void* handle) noexcept;
PH_EXPORT void destroy_streams_and_events(int device) noexcept;  // all that were created on it

PH_EXPORT void* create_event(bool timing) noexcept;
PH_EXPORT bool destroy_event(void* handle) noexcept;
struct CapturedEvent;  // graph/capture.h
struct EventRef {
  bool valid = false;
  int device = 0;  // the current one when it was made
  bool timing = true;
  std::uint64_t instance = 0;  // the last record's instance; 0: never recorded
  StreamRef stream{};  // of the last record
  std::shared_ptr<const CapturedEvent> captured;  // the last record went to a capture
};
PH_EXPORT EventRef resolve_event(const void* handle) noexcept;
// Draws the next instance, emits the EventRecord, remembers it in the event.
PH_EXPORT bool record_event(void* event, StreamRef stream) noexcept;
// The same for an event that no handle stands for: its instance, which nobody asks for the time of.
PH_EXPORT std::uint64_t record_instance(StreamRef stream) noexcept;

// Makes later work of `stream` wait for the event's last record.
PH_EXPORT void stream_wait_event(StreamRef stream, EventRef event) noexcept;

// Makes the calling thread a driver that puts one more piece of work on the stream: waits until its queue has room
// (docs/decisions/launch-queue.md).
PH_EXPORT void enter_queue(StreamRef stream) noexcept;

}  // namespace ph
