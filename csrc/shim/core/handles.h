// Handles of the vendor APIs: an index, a generation and a tag, dressed as a pointer.
//
// Use after destroy, and a handle of another kind, are found by comparison and never reach another object.
// A table is constant-initialised and has no destructor: the traced program's own static destructors still
// use handles after ours would have run.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace ph {

// One kind of handle each; above bit 55, so a handle is no valid address and no small sentinel value.
enum class HandleTag : std::uint8_t {
  Stream = 1,
  Event,
  Graph,
  GraphNode,
  GraphExec,
  UserObject,
  MemoryPool,
  Module,
  Function,
  Library,
  Context,
  Physical,
  Cublas,
  CublasLt,
  Cudnn,
  Nvml,
  Nvrtc,
  Cusparse,
  Cusolver,
  Nccl,
  Descriptor,
  Link,
  Tensor,
  SparseMatrix,
  DenseMatrix,
  DenseVector,
  Dropout,
  Recurrent,
  Sequences,
  CtcLoss,
  Sampler,
};

// `T` is default constructible and movable. The pointer that `get` gives is good until the handle is
// destroyed; to destroy a handle that another thread uses is the program's error, as it is with the vendor,
// and leaves a stale object here, never unmapped memory.
template <class T>
class HandleTable {
 public:
  explicit constexpr HandleTable(HandleTag tag) noexcept : tag_(static_cast<std::uint64_t>(tag)) {}

  // Null when a million are alive or memory is out.
  void* create(T value = {}) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = take_index();
    if (index == kNone) return nullptr;
    Slot& slot = *slot_at(index);
    slot.value = std::move(value);
    const std::uint32_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
    slot.generation.store(generation, std::memory_order_release);
    return encode(index, generation);
  }

  // Null: not a live handle of this table.
  T* get(const void* handle) noexcept {
    Slot* slot = find(handle);
    return slot ? &slot->value : nullptr;
  }

  bool destroy(const void* handle) noexcept {
    const std::lock_guard lock(mutex_);
    Slot* slot = find(handle);
    if (!slot) return false;
    slot->generation.store((slot->generation.load(std::memory_order_relaxed) + 1) & kGenerationMask,
                           std::memory_order_release);
    slot->value = T{};
    slot->next_free = free_;
    free_ = index_of(handle);
    return true;
  }

  // Calls visit(handle, T&) for every live handle; create and destroy wait meanwhile.
  template <class Visit>
  void for_each(Visit&& visit) {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t index = 0; index < size_.load(std::memory_order_relaxed); ++index) {
      Slot& slot = *slot_at(index);
      const std::uint32_t generation = slot.generation.load(std::memory_order_relaxed);
      if (generation % 2) visit(encode(index, generation), slot.value);
    }
  }

 private:
  struct Slot {
    std::atomic<std::uint32_t> generation{0};  // odd while alive
    std::uint32_t next_free = 0;
    T value{};
  };

  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::uint32_t kChunkSlots = 1024;
  static constexpr std::uint32_t kChunks = 1024;
  static constexpr std::uint32_t kGenerationMask = (1u << 28) - 1;
  // Bits 0 to 3 stay zero: PyTorch tells a foreign stream from its own by the lowest bit of the value.
  static constexpr int kIndexShift = 4, kGenerationShift = 28, kTagShift = 56;

  void* encode(std::uint32_t index, std::uint32_t generation) const noexcept {
    return reinterpret_cast<void*>(tag_ << kTagShift | std::uint64_t{generation} << kGenerationShift |
                                   std::uint64_t{index} << kIndexShift);
  }
  static std::uint32_t index_of(const void* handle) noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(handle) >> kIndexShift) & 0xffffff;
  }

  Slot* slot_at(std::uint32_t index) noexcept {
    return chunks_[index / kChunkSlots].load(std::memory_order_acquire) + index % kChunkSlots;
  }

  Slot* find(const void* handle) noexcept {
    const std::uint32_t index = index_of(handle);
    if (index >= size_.load(std::memory_order_acquire)) return nullptr;
    Slot* slot = slot_at(index);
    const std::uint32_t generation = slot->generation.load(std::memory_order_acquire);
    return generation % 2 && encode(index, generation) == handle ? slot : nullptr;
  }

  std::uint32_t take_index() noexcept {
    if (free_ != kNone) {
      const std::uint32_t index = free_;
      free_ = slot_at(index)->next_free;
      return index;
    }
    const std::uint32_t index = size_.load(std::memory_order_relaxed);
    if (index == kChunkSlots * kChunks) return kNone;
    if (index % kChunkSlots == 0) {
      Slot* chunk = new (std::nothrow) Slot[kChunkSlots];
      if (!chunk) return kNone;
      chunks_[index / kChunkSlots].store(chunk, std::memory_order_release);
    }
    size_.store(index + 1, std::memory_order_release);
    return index;
  }

  std::uint64_t tag_;
  std::mutex mutex_;
  std::uint32_t free_ = kNone;
  std::atomic<std::uint32_t> size_{0};
  std::array<std::atomic<Slot*>, kChunks> chunks_{};
};

}  // namespace ph
