#include "shim/values/large_uploads.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

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

// Whether the process has pages of its own for all of it, in memory or swapped out.
// Source: the kernel's Documentation/admin-guide/mm/pagemap.rst.
bool is_written(const void* pointer, std::size_t bytes) noexcept {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62,
                          kOfFile = std::uint64_t{1} << 61;
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer) / page_bytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(pointer) + bytes - 1) / page_bytes + 1;
  std::vector<std::uint64_t> pages(end - begin);
  const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (map < 0) return false;
  const ssize_t size = static_cast<ssize_t>(pages.size() * sizeof(std::uint64_t));
  const bool is_read = pread(map, pages.data(), static_cast<std::size_t>(size),
                             static_cast<off_t>(begin * sizeof(std::uint64_t))) == size;
  close(map);
  return is_read && std::all_of(pages.begin(), pages.end(), [](std::uint64_t page) {
           return (page & (kPresent | kSwapped)) != 0 && (page & kOfFile) == 0;
         });
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
