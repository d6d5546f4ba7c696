#include "shim/memory/managed.h"

#include <algorithm>
#include <atomic>
#include <bitset>
#include <map>
#include <mutex>

#include <sys/mman.h>

#include "shim/channel/rank.h"
#include "shim/core/addresses.h"
#include "shim/values/host_pages.h"
#include "shim/values/left_unknown.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

constexpr std::size_t kBlockBytes = 2u << 20;  // as the driver's; assumed

struct Block {
  int place = kNoPlace;
  int preferred = kNoPlace;
  int prefetched = kNoPlace;
  bool read_mostly = false;
  std::bitset<kMaxDevices + 1> accessed_by;  // the host is 0
};

struct Managed {
  std::uintptr_t base;
  std::size_t bytes;
  int owner;
  std::uint64_t used = 0;  // when, as `uses` counts
  std::vector<Block> blocks;

  std::size_t bytes_of(std::size_t block) const noexcept { return std::min(kBlockBytes, bytes - block * kBlockBytes); }
};

// Never destroyed: the program's static destructors still free memory.
std::mutex mutex;
auto& all = *new std::map<std::uintptr_t, Managed>;  // by base
std::uint64_t uses = 0;
std::atomic<std::uintptr_t> managed_begin{~std::uintptr_t{0}};
std::atomic<std::uintptr_t> managed_end{0};

// Called with the mutex held, as all here.
Managed* find(const void* pointer) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto after = all.upper_bound(address);
  if (after == all.begin()) return nullptr;
  Managed& found = std::prev(after)->second;
  return address - found.base < found.bytes ? &found : nullptr;
}

// The blocks of a range, from the first to behind the last one.
struct Blocks {
  Managed* of;
  std::size_t begin;
  std::size_t end;

  Blocks(Managed& managed, const void* pointer, std::size_t bytes) noexcept : of(&managed) {
    const std::size_t from = reinterpret_cast<std::uintptr_t>(pointer) - managed.base;
    const std::size_t to = from + std::min(bytes, managed.bytes - from);
    begin = from / kBlockBytes;
    end = (to + kBlockBytes - 1) / kBlockBytes;
  }

  bool overlaps(const Blocks& other) const noexcept { return of == other.of && begin < other.end && other.begin < end; }
  Blocks with(const Blocks& other) const noexcept {
    Blocks both = *this;
    both.begin = std::min(begin, other.begin);
    both.end = std::max(end, other.end);
    return both;
  }
};

// What the host has touched of a block that nothing else is known of.
std::size_t touched_bytes(const Managed& managed, std::size_t block) noexcept {
  return present_bytes(reinterpret_cast<void*>(managed.base + block * kBlockBytes), managed.bytes_of(block));
}

// Copies of one kind that are one record.
void record_move(CopyKind kind, std::size_t bytes, StreamRef stream) noexcept {
  if (bytes == 0) return;
  Record record{};
  record.kind = RecordKind::Copy;
  record.device = stream.device;
  record.stream = stream.id;
  record.id = static_cast<std::uint32_t>(kind);
  record.arg[CopyArg::Bytes] = bytes;
  emit(record);
}

std::size_t free_bytes(int device) noexcept {
  std::size_t available = 0, total = 0;
  memory_info(device, available, total);
  return available;
}

// Takes blocks off a device until so much is free, or none are left that were used before `until`. Returns their bytes.
std::size_t evict(int device, std::size_t wanted_bytes, std::size_t available, std::uint64_t until) noexcept {
  std::vector<Managed*> by_use;
  for (auto& [base, managed] : all) {
    if (managed.used < until) by_use.push_back(&managed);
  }
  std::sort(by_use.begin(), by_use.end(), [](auto* left, auto* right) { return left->used < right->used; });
  std::size_t evicted = 0;
  for (Managed* managed : by_use) {
    for (std::size_t i = 0; i < managed->blocks.size() && available + evicted < wanted_bytes; ++i) {
      if (managed->blocks[i].place != device) continue;
      managed->blocks[i].place = kHostPlace;
      evicted += managed->bytes_of(i);
    }
  }
  if (evicted != 0) give_memory(device, evicted, MemoryKind::Managed);
  return evicted;
}

// What one call moves to a device.
class Moves {
 public:
  // What was used before `until` may make room.
  Moves(int device, StreamRef stream, std::uint64_t until) : device_(device), stream_(stream), until_(until) {}

  void bring(Managed& managed, std::size_t i) {
    Block& block = managed.blocks[i];
    const std::size_t bytes = managed.bytes_of(i);
    if (block.place >= 0) left_[block.place] += bytes;
    else from_host_ += block.place == kHostPlace ? bytes : touched_bytes(managed, i);
    if (!has_room(bytes)) {  // it passes through, and makes place for the next
      if (block.place != kNoPlace) to_host_ += bytes;
      block.place = std::min(block.place, kHostPlace);
      return;
    }
    block.place = device_;
    brought_.push_back(&block);
    brought_bytes_ += bytes;
  }

  void finish() {
    for (const auto& [device, bytes] : left_) {
      record_move(CopyKind::PeerToPeer, bytes, stream_);
      give_memory(device, bytes, MemoryKind::Managed);
    }
    record_move(CopyKind::DeviceToHost, to_host_, stream_);
    record_move(CopyKind::HostToDevice, from_host_, stream_);
    if (brought_bytes_ == 0 || take_memory(device_, brought_bytes_, MemoryKind::Managed)) return;
    for (Block* block : brought_) block->place = kHostPlace;  // somebody was faster
  }

 private:
  bool has_room(std::size_t bytes) {
    const std::size_t wanted = brought_bytes_ + bytes;
    const std::size_t available = free_bytes(device_);
    if (wanted <= available) return true;
    const std::size_t evicted = evict(device_, wanted, available, until_);
    to_host_ += evicted;
    return wanted <= available + evicted;
  }

  int device_;
  StreamRef stream_;
  std::uint64_t until_;
  std::vector<Block*> brought_;
  std::size_t brought_bytes_ = 0;
  std::size_t from_host_ = 0;
  std::size_t to_host_ = 0;
  std::map<int, std::size_t> left_;  // other devices
};

void send_home(const Blocks& range, StreamRef stream) {
  std::map<int, std::size_t> left;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    int& place = range.of->blocks[i].place;
    if (place < 0) continue;
    left[place] += range.of->bytes_of(i);
    place = kHostPlace;
  }
  for (const auto& [device, bytes] : left) {
    record_move(CopyKind::DeviceToHost, bytes, stream);
    give_memory(device, bytes, MemoryKind::Managed);
  }
}

// Whether work of a device leaves the block where it is, on the host: as the program has advised.
bool stays_on_host(const Managed& managed, std::size_t i, int device) noexcept {
  const Block& block = managed.blocks[i];
  if (block.place >= 0 || block.read_mostly || block.preferred == device) return false;
  if (block.preferred == kHostPlace) return true;
  const bool is_mapped = block.accessed_by.test(static_cast<std::size_t>(device) + 1);
  return is_mapped && (block.place == kHostPlace || touched_bytes(managed, i) != 0);
}

template <class Get>
auto common(const Blocks& range, Get get, decltype(get(Block{})) otherwise) {
  const auto& blocks = range.of->blocks;
  const auto first = get(blocks[range.begin]);
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (get(blocks[i]) != first) return otherwise;
  }
  return first;
}

}  // namespace

void* allocate_managed(std::size_t bytes) noexcept {
  const std::uintptr_t behind = (managed_end.load() + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  void* pointer = mmap(reinterpret_cast<void*>(std::max(kFirstManaged, behind)), bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED) return nullptr;
  madvise(pointer, bytes, MADV_DONTDUMP);
  madvise(pointer, bytes, MADV_NOHUGEPAGE);  // which pages are there says what the host has touched
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  {
    const std::lock_guard lock(mutex);
    all[base] = {base, bytes, current_device(), 0, std::vector<Block>((bytes + kBlockBytes - 1) / kBlockBytes)};
    managed_begin = std::min(managed_begin.load(), base);
    managed_end = std::max(managed_end.load(), base + bytes);
  }
  add_managed(pointer, bytes);
  return pointer;
}

bool free_managed(void* pointer) noexcept {
  if (!may_be_managed(pointer)) return false;
  drain_values();  // copies that still write to it
  Allocation freed;
  if (find_allocation(pointer, freed)) await_values_of(pointer, freed.bytes);
  end_unknown(pointer, freed.bytes);
  if (!remove_managed(pointer)) return false;
  const std::lock_guard lock(mutex);
  const auto entry = all.find(reinterpret_cast<std::uintptr_t>(pointer));
  const Managed& managed = entry->second;
  std::map<int, std::size_t> left;
  for (std::size_t i = 0; i < managed.blocks.size(); ++i) {
    if (managed.blocks[i].place >= 0) left[managed.blocks[i].place] += managed.bytes_of(i);
  }
  for (const auto& [device, bytes] : left) give_memory(device, bytes, MemoryKind::Managed);
  munmap(pointer, managed.bytes);
  all.erase(entry);
  return true;
}

bool any_managed() noexcept { return managed_end.load(std::memory_order_relaxed) != 0; }

bool may_be_managed(const void* pointer) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return managed_begin.load(std::memory_order_relaxed) <= address &&
         address < managed_end.load(std::memory_order_relaxed);
}

bool is_managed(const void* pointer, std::size_t bytes) noexcept {
  if (!may_be_managed(pointer)) return false;
  const std::lock_guard lock(mutex);
  const Managed* managed = find(pointer);
  return managed != nullptr && bytes <= managed->base + managed->bytes - reinterpret_cast<std::uintptr_t>(pointer);
}

ManagedFacts managed_facts(const void* pointer, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex);
  Managed* managed = find(pointer);
  if (managed == nullptr) return {kNoPlace, kNoPlace, kNoPlace, false, {}};
  const Blocks range(*managed, pointer, bytes);
  ManagedFacts facts{managed->owner,
                     common(
                         range, [](const Block& block) { return block.preferred; }, kNoPlace),
                     common(
                         range, [](const Block& block) { return block.prefetched; }, kNoPlace),
                     common(
                         range, [](const Block& block) { return block.read_mostly; }, false),
                     {}};
  auto accessed_by = managed->blocks[range.begin].accessed_by;
  for (std::size_t i = range.begin; i < range.end; ++i) accessed_by &= managed->blocks[i].accessed_by;
  for (std::size_t i = 0; i < accessed_by.size(); ++i) {
    if (accessed_by.test(i)) facts.accessed_by.push_back(static_cast<int>(i) - 1);
  }
  return facts;
}

void advise_managed(const void* pointer, std::size_t bytes, Advice advice, int place) noexcept {
  const std::lock_guard lock(mutex);
  Managed* managed = find(pointer);
  if (managed == nullptr) return;
  const Blocks range(*managed, pointer, bytes);
  for (std::size_t i = range.begin; i < range.end; ++i) {
    Block& block = managed->blocks[i];
    switch (advice) {
      case Advice::ReadMostly:
      case Advice::NotReadMostly: block.read_mostly = advice == Advice::ReadMostly; break;
      case Advice::Preferred: block.preferred = place; break;
      case Advice::NotPreferred: block.preferred = kNoPlace; break;
      case Advice::AccessedBy:
      case Advice::NotAccessedBy:
        block.accessed_by.set(static_cast<std::size_t>(place) + 1, advice == Advice::AccessedBy);
        break;
    }
  }
}

int managed_place(const void* pointer) noexcept {
  if (!may_be_managed(pointer)) return kHostPlace;
  const std::lock_guard lock(mutex);
  const Managed* managed = find(pointer);
  if (managed == nullptr) return kHostPlace;
  return std::max(kHostPlace,
                  managed->blocks[(reinterpret_cast<std::uintptr_t>(pointer) - managed->base) / kBlockBytes].place);
}

void prefetch_managed(const void* pointer, std::size_t bytes, int place, StreamRef stream) noexcept {
  const std::lock_guard lock(mutex);
  Managed* managed = find(pointer);
  if (managed == nullptr) return;
  managed->used = ++uses;
  const Blocks range(*managed, pointer, bytes);
  for (std::size_t i = range.begin; i < range.end; ++i) managed->blocks[i].prefetched = place;
  if (place == kHostPlace) return send_home(range, stream);
  Moves moves(place, stream, uses);
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (managed->blocks[i].place != place) moves.bring(*managed, i);
  }
  moves.finish();
}

std::size_t use_managed(std::span<const ManagedOperand> operands, StreamRef stream) noexcept {
  const std::lock_guard lock(mutex);
  ++uses;
  std::vector<Blocks> ranges;
  for (const auto& [pointer, bytes] : operands) {
    Managed* managed = find(pointer);
    if (managed == nullptr) continue;
    managed->used = uses;
    const Blocks range(*managed, pointer, bytes);
    const auto same =
        std::find_if(ranges.begin(), ranges.end(), [&](const Blocks& one) { return one.overlaps(range); });
    if (same == ranges.end()) ranges.push_back(range);
    else *same = same->with(range);
  }
  Moves moves(stream.device, stream, uses);
  std::size_t host_bytes = 0;
  for (const Blocks& range : ranges) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (range.of->blocks[i].place == stream.device) continue;
      if (stays_on_host(*range.of, i, stream.device)) {
        range.of->blocks[i].place = kHostPlace;
        host_bytes += range.of->bytes_of(i);
      } else {
        moves.bring(*range.of, i);
      }
    }
  }
  moves.finish();
  return host_bytes;
}

void make_room(int device, std::size_t bytes) noexcept {
  if (!any_managed()) return;
  const std::lock_guard lock(mutex);
  const std::size_t available = free_bytes(device);
  if (bytes <= available) return;
  const std::size_t evicted = evict(device, bytes, available, ~std::uint64_t{0});
  record_move(CopyKind::DeviceToHost, evicted, {0, static_cast<std::uint16_t>(device), true, false, 0});
}

void leave_device(int device) noexcept {
  if (!any_managed()) return;
  const std::lock_guard lock(mutex);
  evict(device, ~std::size_t{0}, 0, ~std::uint64_t{0});
}

}  // namespace ph
