#include "bindings/test_rank.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace ph {

TestRank::TestRank(const std::string& run_dir, std::uint32_t rank)
    : board_(switchboard_path(run_dir), sizeof(Switchboard), Mapping::Open::Existing),
      channel_(channel_path(run_dir, rank), sizeof(Channel), Mapping::Open::Existing) {
  if (channel().magic != kChannelMagic || channel().version != kProtocolVersion)
    throw std::runtime_error("not a channel of this version");
  channel().owner_pid = static_cast<std::uint32_t>(::getpid());
}

void TestRank::ring() {
  Switchboard& board = *static_cast<Switchboard*>(board_.data());
  board.rings.fetch_add(1, std::memory_order_release);
  futex_wake(board.rings);
}

void TestRank::set_clock(std::uint64_t host_clock_ns) {
  channel().host_clock_ns.store(host_clock_ns, std::memory_order_release);
}

void TestRank::push(std::string_view cells, std::uint64_t host_clock_ns, bool ring_at_end) {
  set_clock(host_clock_ns);
  Channel& to = channel();
  lock(to);
  for (std::size_t at = 0; at < cells.size(); at += kCellBytes) {
    const std::uint64_t head = to.head.load(std::memory_order_relaxed);
    while (head - to.tail.load(std::memory_order_acquire) == kRingCells) {
      ring();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    const std::size_t size_bytes = std::min(kCellBytes, cells.size() - at);
    std::memcpy(to.cells + head % kRingCells * kCellBytes, cells.data() + at, size_bytes);
    to.head.store(head + 1, std::memory_order_release);
  }
  unlock(to);
  if (ring_at_end) ring();
}

std::optional<TestRank::Reply> TestRank::wait_reply(std::uint32_t slot, int timeout_ms) {
  if (slot >= kReplySlots) throw std::invalid_argument("there is no such reply slot");
  ReplySlot& reply = channel().slots[slot];
  if (reply.answered.load(std::memory_order_acquire) == 0) futex_wait(reply.answered, 0, timeout_ms);
  if (reply.answered.load(std::memory_order_acquire) == 0) return std::nullopt;
  Reply got{
      reply.status, reply.time_ns, reply.value, {reinterpret_cast<const char*>(reply.payload), reply.payload_bytes}};
  reply.answered.store(0, std::memory_order_release);
  return got;
}

}  // namespace ph
