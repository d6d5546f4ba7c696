#include "shim/values/left_unknown.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/values/host_pages.h"
#include "shim/values/values.h"

namespace ph {

namespace {

constexpr std::uintptr_t kPageBytes = 4096;

struct Left {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::uint32_t site;
  std::shared_ptr<std::atomic<bool>> given_back;  // until then its pages hold what was there before
};

// Never destroyed: the program's static destructors still free memory.
std::mutex mutex;
auto& all = *new std::map<std::uintptr_t, Left>;  // by begin; apart from each other
std::atomic<bool> any{false};

void* pointer_of(std::uintptr_t address) noexcept { return reinterpret_cast<void*>(address); }

void record_touched(const std::vector<Left>& parts) noexcept {
  for (const Left& part : parts) {
    if (!part.given_back->load()) continue;  // no wait lies between: the host cannot have looked
    Record record{};
    record.kind = RecordKind::SyntheticRead;
    record.site = part.site;
    record.arg[SyntheticReadArg::Bytes] = present_bytes(pointer_of(part.begin), part.end - part.begin);
    if (record.arg[SyntheticReadArg::Bytes] != 0) emit(record);
  }
}

// Takes the parts of a range out.
std::vector<Left> take(std::uintptr_t begin, std::uintptr_t end) {
  std::vector<Left> taken;
  const std::lock_guard lock(mutex);
  auto entry = all.upper_bound(begin);
  if (entry != all.begin() && std::prev(entry)->second.end > begin) --entry;
  while (entry != all.end() && entry->first < end) {
    const Left whole = entry->second;
    entry = all.erase(entry);
    Left part = whole;
    part.begin = std::max(begin, whole.begin);
    part.end = std::min(end, whole.end);
    taken.push_back(part);
    if (whole.begin < begin) all[whole.begin] = {whole.begin, begin, whole.site, whole.given_back};
    if (end < whole.end) all[end] = {end, whole.end, whole.site, whole.given_back};
  }
  any = !all.empty();
  return taken;
}

// What of a range is not left unknown yet; it is from now on.
std::vector<Left> add(std::uintptr_t begin, std::uintptr_t end, std::uint32_t site) {
  std::vector<Left> added;
  const std::lock_guard lock(mutex);
  auto entry = all.upper_bound(begin);
  if (entry != all.begin() && std::prev(entry)->second.end > begin) begin = std::prev(entry)->second.end;
  while (begin < end) {
    const std::uintptr_t until = entry == all.end() ? end : std::min(end, entry->first);
    if (begin < until) added.push_back({begin, until, site, std::make_shared<std::atomic<bool>>(false)});
    if (until == end) break;
    begin = entry->second.end;
    ++entry;
  }
  for (const Left& part : added) all[part.begin] = part;
  any = !all.empty();
  return added;
}

// Whole pages; the rest of a page holds something else, and becomes zeros.
void give_back(std::uintptr_t begin, std::uintptr_t end) noexcept {
  const std::uintptr_t first = (begin + kPageBytes - 1) / kPageBytes * kPageBytes, last = end / kPageBytes * kPageBytes;
  if (first >= last) {
    std::memset(pointer_of(begin), 0, end - begin);
    return;
  }
  if (madvise(pointer_of(first), last - first, MADV_DONTNEED) != 0) std::memset(pointer_of(first), 0, last - first);
  std::memset(pointer_of(begin), 0, first - begin);
  std::memset(pointer_of(last), 0, end - last);
}

// Behind the end of an allocation the rest of its last page is nobody's.
std::uintptr_t end_of(std::uintptr_t end) noexcept {
  Allocation allocation;
  const bool is_last = find_allocation(pointer_of(end - 1), allocation) && allocation.base + allocation.bytes == end;
  return is_last ? (end + kPageBytes - 1) / kPageBytes * kPageBytes : end;
}

}  // namespace

void leave_unknown(const void* pointer, std::size_t bytes) noexcept {
  if (!attached() || bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  for (const Left& part : add(begin, end_of(begin + bytes), current_site())) {
    const auto run = [part] {
      give_back(part.begin, part.end);
      *part.given_back = true;
    };
    queue_host_write(pointer_of(part.begin), pointer_of(part.begin), part.end - part.begin, run);
  }
}

std::size_t known_before(const void* pointer, std::size_t bytes) noexcept {
  if (!any.load(std::memory_order_relaxed)) return bytes;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex);
  const auto next = all.upper_bound(begin);
  if (next != all.begin() && std::prev(next)->second.end > begin) return 0;
  return next == all.end() ? bytes : std::min<std::size_t>(bytes, next->first - begin);
}

void end_unknown(const void* pointer, std::size_t bytes) noexcept {
  if (!any.load(std::memory_order_relaxed)) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  record_touched(take(begin, begin + bytes));
}

void tell_unknown() noexcept { end_unknown(nullptr, ~std::size_t{0}); }

}  // namespace ph
