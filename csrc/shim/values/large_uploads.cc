#include "shim/values/large_uploads.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "shim/values/host_pages.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Assumed to be enough for objects, and little beside what a rank takes anyway.
constexpr std::size_t kMostBytes = 256u << 20;
// Batches come again and again in one size, and nobody reads them back.
constexpr unsigned kMostUnused = 4;

struct Upload {
  const char* begin;
  std::size_t bytes;
};

std::mutex mutex;
auto& kept = *new std::list<Upload>;                   // the oldest first
auto& unused = *new std::map<std::size_t, unsigned>;  // by size
std::size_t kept_bytes = 0;
std::atomic<bool> has_any{false};

bool overlap(const Upload& upload, const void* pointer, std::size_t bytes) noexcept {
  const auto* begin = static_cast<const char*>(pointer);
  return upload.begin < begin + bytes && begin < upload.begin + upload.bytes;
}

}  // namespace

LargeUpload look_at_upload(const void* destination, const void* source, std::size_t bytes) noexcept {
  if (bytes > kMostBytes || !is_written(source, bytes)) return LargeUpload::Empty;
  {
    const std::lock_guard lock(mutex);
    if (unused[bytes] >= kMostUnused) return LargeUpload::Forgotten;
  }
  note_large_end(destination, bytes);
  std::list<Upload> oldest;
  {
    const std::lock_guard lock(mutex);
    ++unused[bytes];
    kept.push_back({static_cast<const char*>(destination), bytes});
    kept_bytes += bytes;
    while (kept_bytes > kMostBytes) {
      kept_bytes -= kept.front().bytes;
      oldest.splice(oldest.end(), kept, kept.begin());
    }
    has_any.store(true);
  }
  for (const Upload& upload : oldest) forget_freed(upload.begin, upload.bytes);
  return LargeUpload::Kept;
}

void note_large_use(const void* pointer, std::size_t bytes) noexcept {
  if (!has_any.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  for (const Upload& upload : kept) {
    if (overlap(upload, pointer, bytes)) unused[upload.bytes] = 0;
  }
}

void note_large_end(const void* pointer, std::size_t bytes) noexcept {
  if (!has_any.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  std::erase_if(kept, [&](const Upload& upload) {
    if (!overlap(upload, pointer, bytes)) return false;
    kept_bytes -= upload.bytes;
    return true;
  });
  has_any.store(!kept.empty());
}

}  // namespace ph
