#include "shim/streams/copies.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/graph/capture.h"
#include "shim/memory/managed.h"
#include "shim/values/values.h"
#include "shim/waiting/host_waits.h"

namespace ph {

namespace {

// Pageable host-to-device copies up to this are staged and return at once. Source: as copies.h.
constexpr std::size_t kStagedBytes = 64u << 10;

bool is_pageable(const void* pointer) noexcept {
  Allocation allocation;
  return !is_device_pointer(pointer) && !find_allocation(pointer, allocation);
}

void record_copy(CopyKind kind, bool pageable, std::size_t bytes, StreamRef stream) noexcept {
  enter_queue(stream);
  Record record{};
  record.kind = RecordKind::Copy;
  record.flags = pageable ? kCopyPageable : 0;
  record.device = stream.device;
  record.stream = stream.id;
  record.id = static_cast<std::uint32_t>(kind);
  record.arg[CopyArg::Bytes] = bytes;
  emit(record);
}

struct Plan {
  CopyKind kind;
  bool pageable;
  bool host_reads;   // the program reads the destination as soon as the copy has returned
  bool waits;
};

// What device a pointer's memory is on now; kHostPlace: on none.
int device_of(const void* pointer) noexcept {
  Allocation allocation;
  if (!is_device_pointer(pointer)) return managed_place(pointer);
  return find_allocation(pointer, allocation) ? allocation.device : 0;
}

Plan plan(const void* destination, const void* source, std::size_t bytes, bool synchronous) noexcept {
  const CopyKind kind = copy_kind(destination, source);
  const bool pageable = (kind == CopyKind::HostToDevice && is_pageable(source)) ||
                        (kind == CopyKind::DeviceToHost && is_pageable(destination));
  const bool to_host = kind == CopyKind::DeviceToHost || kind == CopyKind::HostToHost;
  bool waits = false;
  if (kind == CopyKind::DeviceToHost) waits = synchronous || pageable;
  if (kind == CopyKind::HostToDevice) waits = pageable ? bytes > kStagedBytes : synchronous;
  if (kind == CopyKind::HostToHost) waits = synchronous;
  return {kind, pageable, to_host && (waits || synchronous), waits};
}

// From the first row's begin to the last one's end; beyond all memory where the numbers are. Of planes likewise.
std::size_t rows_bytes(std::size_t pitch, std::size_t width, std::size_t height) noexcept {
  std::size_t bytes;
  const bool is_more =
      __builtin_mul_overflow(height - 1, pitch, &bytes) || __builtin_add_overflow(bytes, width, &bytes);
  return is_more ? SIZE_MAX : bytes;
}

// Managed memory comes to the device that fills it, unless it is to stay.
bool fills_host(void* destination, std::size_t bytes, StreamRef stream) noexcept {
  if (!may_be_managed(destination) || call_is_captured()) return false;
  ensure_context(stream.device);
  const ManagedOperand operand{destination, bytes};
  return use_managed({&operand, 1}, stream) != 0;
}

bool is_empty(const Rows& rows) noexcept { return rows.width == 0 || rows.height == 0 || rows.depth == 0; }

}  // namespace

bool can_copy(const void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
              std::size_t width, std::size_t height) noexcept {
  return width == 0 || height == 0 ||
         (is_writable(destination, rows_bytes(destination_pitch, width, height)) &&
          is_readable(source, rows_bytes(source_pitch, width, height)));
}

bool can_fill(const void* destination, std::size_t element_bytes, std::size_t count) noexcept {
  return count <= SIZE_MAX / element_bytes && is_writable(destination, element_bytes * count);
}

bool can_fill_rows(const void* destination, std::size_t element_bytes, const Rows& rows) noexcept {
  if (is_empty(rows)) return true;
  if (rows.width > SIZE_MAX / element_bytes) return false;
  const std::size_t plane_bytes = rows_bytes(rows.pitch, element_bytes * rows.width, rows.height);
  return is_writable(destination, rows_bytes(rows.plane_pitch, plane_bytes, rows.depth));
}

CopyKind copy_kind(const void* destination, const void* source) noexcept {
  const int to = device_of(destination), from = device_of(source);
  if (to >= 0 && from >= 0) return to == from ? CopyKind::DeviceToDevice : CopyKind::PeerToPeer;
  if (to >= 0) return CopyKind::HostToDevice;
  return from >= 0 ? CopyKind::DeviceToHost : CopyKind::HostToHost;
}

void copy_async(void* destination, const void* source, std::size_t bytes, StreamRef stream) noexcept {
  copy_2d(destination, bytes, source, bytes, bytes, 1, stream, false);
}

void copy_sync(void* destination, const void* source, std::size_t bytes, StreamRef stream) noexcept {
  copy_2d(destination, bytes, source, bytes, bytes, 1, stream, true);
}

void copy_2d(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
             std::size_t width, std::size_t height, StreamRef stream, bool synchronous) noexcept {
  if (width == 0 || height == 0) return;
  const Plan p = plan(destination, source, width * height, synchronous);
  record_copy(p.kind, p.pageable, width * height, stream);
  if (p.waits && !call_is_captured()) wait_stream(stream);
  for (std::size_t row = 0; row < height; ++row) {
    copy_values(static_cast<char*>(destination) + row * destination_pitch,
                static_cast<const char*>(source) + row * source_pitch, width, p.host_reads);
  }
}

void fill_async(void* destination, unsigned value, std::size_t element_bytes, std::size_t count,
                StreamRef stream) noexcept {
  fill_rows(destination, value, element_bytes, {.pitch = 0, .width = count, .height = 1}, stream);
}

void fill_rows(void* destination, unsigned value, std::size_t element_bytes, const Rows& rows,
               StreamRef stream) noexcept {
  if (is_empty(rows)) return;
  const std::size_t bytes = element_bytes * rows.width * rows.height * rows.depth;
  if (fills_host(destination, bytes, stream)) {
    record_copy(CopyKind::DeviceToHost, false, bytes, stream);  // as fast as that
  } else {
    enter_queue(stream);
    Record record{};
    record.kind = RecordKind::Fill;
    record.device = stream.device;
    record.stream = stream.id;
    record.arg[FillArg::Bytes] = bytes;
    emit(record);
  }
  for (std::size_t plane = 0; plane < rows.depth; ++plane) {
    for (std::size_t row = 0; row < rows.height; ++row) {
      char* begin = static_cast<char*>(destination) + plane * rows.plane_pitch + row * rows.pitch;
      fill_values(begin, value, element_bytes, rows.width);
    }
  }
}

}  // namespace ph
