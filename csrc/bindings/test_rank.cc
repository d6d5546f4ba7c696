#include "bindings/test_rank.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace ph {

namespace {

// The fields of the shared memory that the agent reads; of the reply slots, the first.
struct Field {
  const char* name;
  std::size_t offset;  // in the switchboard, or in the channel
  std::size_t size_bytes;
  bool on_board;
};

#define PH_FIELD(type, member) \
  {#member, offsetof(type, member), sizeof(type::member), std::is_same_v<type, Switchboard>}
constexpr Field kFields[] = {
    PH_FIELD(Channel, magic),        PH_FIELD(Channel, version),
    PH_FIELD(Channel, rank),         PH_FIELD(Channel, owner_pid),
    PH_FIELD(Channel, lock),         PH_FIELD(Channel, aside),
    PH_FIELD(Channel, waiting),      PH_FIELD(Channel, poll_sleeps),
    PH_FIELD(Channel, polls_asleep), PH_FIELD(Channel, host_clock_ns),
    PH_FIELD(Channel, asking),       PH_FIELD(Channel, awaiting_values),
    PH_FIELD(Channel, giving_way),   PH_FIELD(Channel, giving_way_beside),
    PH_FIELD(Channel, asked),        PH_FIELD(Channel, told),
    PH_FIELD(Channel, awaits_any),   PH_FIELD(Channel, head),
    PH_FIELD(Channel, tail),         PH_FIELD(Switchboard, rings),
    PH_FIELD(Switchboard, ranks),    PH_FIELD(Switchboard, addresses[0].owner),
    PH_FIELD(Channel, blocked),      PH_FIELD(Channel, ran_out),
    PH_FIELD(Channel, looking_up),
};
#undef PH_FIELD
constexpr const char* kRecipient = "slots[].recipient";
constexpr const char* kSlotState = "slots[].busy, answered";
constexpr const char* kBegun = "calls to everyone begun";

}  // namespace

TestRank::TestRank(const std::string& run_dir, std::uint32_t rank)
    : rank_(rank),
      board_(switchboard_path(run_dir), std::filesystem::file_size(switchboard_path(run_dir)), Mapping::Open::Existing),
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

void TestRank::set_clock(Nanoseconds host_clock_ns) {
  channel().host_clock_ns.store(host_clock_ns, std::memory_order_release);
}

void TestRank::push(std::string_view cells, Nanoseconds host_clock_ns, bool ring_at_end) {
  set_clock(host_clock_ns);
  Channel& to = channel();
  lock(to);
  // At once, as a rank does, but for more than the ring holds.
  for (std::size_t at = 0; at < cells.size();) {
    const std::uint64_t head = to.head.load(std::memory_order_relaxed);
    const std::size_t piece = std::min<std::size_t>(kRingCells, (cells.size() - at) / kCellBytes);
    while (head + piece - to.tail.load(std::memory_order_acquire) > kRingCells) {
      ring();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    for (std::uint64_t cell = head; cell < head + piece; ++cell, at += kCellBytes)
      std::memcpy(to.cells + cell % kRingCells * kCellBytes, cells.data() + at, kCellBytes);
    to.head.store(head + piece, std::memory_order_release);
  }
  unlock(to);
  if (ring_at_end) ring();
}

void TestRank::count_call(std::uint32_t to, bool ended) {
  Switchboard& board = *static_cast<Switchboard*>(board_.data());
  CallCounters& counters = board.calls(board.ranks, rank_, to + 1);
  (ended ? counters.ended : counters.begun).fetch_add(1);
}

std::vector<std::string> TestRank::fields() {
  std::vector<std::string> names{kRecipient, kSlotState, kBegun};
  for (const Field& field : kFields) names.emplace_back(field.name);
  return names;
}

void TestRank::overwrite(const std::string& field, std::uint64_t value) {
  Switchboard& board = *static_cast<Switchboard*>(board_.data());
  const auto low = static_cast<std::uint32_t>(value);
  if (field == kBegun) return board.calls(board.ranks, rank_, kEveryone).begun.store(low);
  for (ReplySlot& slot : channel().slots) {
    if (field == kRecipient) slot.recipient = low;
    if (field == kSlotState) {
      slot.busy.store(low);
      slot.answered.store(static_cast<std::uint32_t>(value >> 32));
    }
  }
  if (field == kRecipient || field == kSlotState) return;
  const auto found =
      std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& one) { return one.name == field; });
  if (found == std::end(kFields)) throw std::invalid_argument("there is no field " + field);
  void* base = found->on_board ? board_.data() : channel_.data();
  std::memcpy(static_cast<char*>(base) + found->offset, &value, found->size_bytes);
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
